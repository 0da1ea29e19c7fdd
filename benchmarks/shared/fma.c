/* What the processor's arithmetic units reach with nothing to wait for: multiply-adds whose operands stay in registers.

   Arguments: seconds for each kernel. Prints a line for each that the compiler's target has: name, dtype, best FLOP/s
   of all threads together. Each accumulator takes part in every pass and its value is known, so answers are checked. */
#include <omp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif
#ifdef __AMX_TILE__
#include <sys/syscall.h>
#include <unistd.h>
#endif

/* Bytes of a vector, and accumulators: more than latency × units of any core, fewer than there are registers. */
#if defined(__AVX512F__)
#define WIDE 64
#define CHAINS 24
#elif defined(__AVX__)
#define WIDE 32
#define CHAINS 12
#elif defined(__aarch64__)
#define WIDE 16
#define CHAINS 24
#else
#define WIDE 16
#define CHAINS 12
#endif
#define EACH _Pragma("GCC unroll 24") for (int j = 0; j < CHAINS; j++)

/* A pass through acc = acc*1/2 + 1 for every accumulator, which all end at 2. */
#define MULTIPLY_ADD(T)                                                                                                \
    static int fma_##T(long passes) {                                                                                  \
        typedef T vec __attribute__((vector_size(WIDE)));                                                              \
        volatile T half = 0.5, one = 1;                                                                                \
        vec acc[CHAINS], x = (vec){} + half, y = (vec){} + one;                                                        \
        EACH acc[j] = (vec){} + (T)j;                                                                                  \
        for (long i = 0; i < passes; i++) EACH acc[j] = acc[j] * x + y;                                                \
        int wrong = 0;                                                                                                 \
        EACH for (int e = 0; e < WIDE / (int)sizeof(T); e++) wrong += acc[j][e] < 1.9999 || acc[j][e] > 2.0001;        \
        return wrong;                                                                                                  \
    }
MULTIPLY_ADD(float)
MULTIPLY_ADD(double)

/* One instruction as it stands: what the compiler makes of the intrinsics goes through memory in places. */
#define DOT(instruction, acc, x, y) __asm__ volatile(instruction " %2, %1, %0" : "+v"(acc) : "v"(x), "v"(y))

#ifdef __AVX512BF16__
/* Pairs of products: 1·1 + 1·1 in one pass and 1·-1 + 1·-1 in the next, two up and two down again. */
static int dot_bfloat16(long passes) {
    volatile float one = 1;
    __m512 acc[CHAINS], ones = _mm512_set1_ps(one);
    __m512bh x = _mm512_cvtne2ps_pbh(ones, ones), y[2] = {x, _mm512_cvtne2ps_pbh(-ones, -ones)};
    EACH acc[j] = _mm512_set1_ps(j * one);
    for (long i = 0; i < passes; i += 2) {
        EACH DOT("vdpbf16ps", acc[j], x, y[0]);
        EACH DOT("vdpbf16ps", acc[j], x, y[1]);
    }
    EACH DOT("vdpbf16ps", acc[j], x, y[0]); /* one more up, so that doing nothing is no right answer */
    int wrong = 0;
    EACH wrong += _mm512_cmp_ps_mask(acc[j], _mm512_set1_ps(j + 2), _CMP_NEQ_UQ) != 0;
    return wrong;
}
#endif

#ifdef __AVX512VNNI__
/* Four products of 8-bit integers in a pass: 4·1·3, added up modulo 2³². */
static int dot_int8(long passes) {
    volatile char one = 1, three = 3;
    __m512i acc[CHAINS], x = _mm512_set1_epi8(one), y = _mm512_set1_epi8(three);
    EACH acc[j] = _mm512_set1_epi32(j * one);
    for (long i = 0; i < passes; i++) EACH DOT("vpdpbusd", acc[j], y, x);
    int wrong = 0;
    EACH wrong += _mm512_cmpneq_epi32_mask(acc[j], _mm512_set1_epi32((int32_t)(j + 12 * (uint32_t)passes))) != 0;
    return wrong;
}
#endif

#ifdef __AMX_TILE__
#define EVERY_TILE(to, check)                                                                                          \
    _tile_stored(0, to, 64); for (int i = 0; i < 256; i++) check;                                                      \
    _tile_stored(1, to, 64); for (int i = 0; i < 256; i++) check;                                                      \
    _tile_stored(2, to, 64); for (int i = 0; i < 256; i++) check;                                                      \
    _tile_stored(3, to, 64); for (int i = 0; i < 256; i++) check;

struct shape { uint8_t palette, start_row, reserved[14]; uint16_t bytes[16]; uint8_t rows[16]; };

/* Tiles of 16 rows of 64 bytes: four sums, and two operands (one for each sign where it matters). */
static int use_tiles(void) {
    struct shape s = {.palette = 1};
    for (int t = 0; t < 8; t++) s.bytes[t] = 64, s.rows[t] = 16;
    if (syscall(SYS_arch_prctl, 0x1023 /* ARCH_REQ_XCOMP_PERM */, 18 /* XFEATURE_XTILEDATA */)) return 1;
    _tile_loadconfig(&s);
    _tile_zero(0); _tile_zero(1); _tile_zero(2); _tile_zero(3);
    return 0;
}
#endif

#ifdef __AMX_BF16__
static int tile_bfloat16(long passes) {
    static const uint16_t values[2] = {0x3f80, 0xbf80}; /* 1 and -1 */
    uint16_t one[512], minus[512];
    float sums[256];
    int wrong = use_tiles();
    if (wrong) return wrong;
    for (int i = 0; i < 512; i++) one[i] = values[0], minus[i] = values[1];
    _tile_loadd(4, one, 64); _tile_loadd(5, one, 64); _tile_loadd(6, minus, 64);
    for (long i = 0; i < passes; i += 2) {
        _tile_dpbf16ps(0, 4, 5); _tile_dpbf16ps(1, 4, 5); _tile_dpbf16ps(2, 4, 5); _tile_dpbf16ps(3, 4, 5);
        _tile_dpbf16ps(0, 4, 6); _tile_dpbf16ps(1, 4, 6); _tile_dpbf16ps(2, 4, 6); _tile_dpbf16ps(3, 4, 6);
    }
    _tile_dpbf16ps(0, 4, 5); _tile_dpbf16ps(1, 4, 5); _tile_dpbf16ps(2, 4, 5); _tile_dpbf16ps(3, 4, 5);
    EVERY_TILE(sums, wrong += sums[i] != 32)
    _tile_release();
    return wrong;
}
#endif

#ifdef __AMX_INT8__
static int tile_int8(long passes) {
    int8_t one[1024], three[1024];
    int32_t sums[256];
    int wrong = use_tiles();
    if (wrong) return wrong;
    for (int i = 0; i < 1024; i++) one[i] = 1, three[i] = 3;
    _tile_loadd(4, one, 64); _tile_loadd(5, three, 64);
    for (long i = 0; i < passes; i++) {
        _tile_dpbssd(0, 4, 5); _tile_dpbssd(1, 4, 5); _tile_dpbssd(2, 4, 5); _tile_dpbssd(3, 4, 5);
    }
    EVERY_TILE(sums, wrong += sums[i] != (int32_t)(192 * (uint32_t)passes))
    _tile_release();
    return wrong;
}
#endif

/* FLOP of a pass of each kernel: two for each multiply-add. */
struct kernel { const char *name, *dtype; int (*run)(long); double flop; };
static const struct kernel kernels[] = {
    {"multiply-add", "float32", fma_float, 2. * CHAINS * WIDE / 4},
    {"multiply-add", "float64", fma_double, 2. * CHAINS * WIDE / 8},
#ifdef __AVX512BF16__
    {"AVX512-BF16", "bfloat16", dot_bfloat16, 2. * CHAINS * 32},
#endif
#ifdef __AVX512VNNI__
    {"AVX512-VNNI", "int8", dot_int8, 2. * CHAINS * 64},
#endif
#ifdef __AMX_BF16__
    {"AMX", "bfloat16", tile_bfloat16, 4 * 2. * 16 * 16 * 32},
#endif
#ifdef __AMX_INT8__
    {"AMX", "int8", tile_int8, 4 * 2. * 16 * 16 * 64},
#endif
};

/* Seconds of `passes` passes in every thread; less than 0: a wrong answer. */
static double seconds_of(const struct kernel *k, long passes) {
    int wrong = 0;
    double t = omp_get_wtime();
#pragma omp parallel reduction(+ : wrong)
    wrong += k->run(passes);
    return wrong ? -1 : omp_get_wtime() - t;
}

int main(int argc, char **argv) {
    double budget = argc > 1 ? atof(argv[1]) : 1;
    for (const struct kernel *k = kernels; k < kernels + sizeof kernels / sizeof *kernels; k++) {
        long passes = 100;
        double t, best = 0, end = omp_get_wtime() + budget;
        while ((t = seconds_of(k, passes)) >= 0 && t < 0.01) passes *= 2; /* a run is 10 to 20 ms long */
        do {
            t = seconds_of(k, passes);
            if (t < 0) { fprintf(stderr, "%s in %s: a wrong answer\n", k->name, k->dtype); return 2; }
            if (passes * k->flop / t > best) best = passes * k->flop / t;
        } while (omp_get_wtime() < end);
        printf("%s,%s,%.6g\n", k->name, k->dtype, best * omp_get_max_threads());
    }
    return 0;
}
