/* The four kernels of STREAM (McCalpin 1995) and a copy with non-temporal stores, over arrays of doubles.

   Arguments: elements of each array, repetitions. Prints a line for each kernel: name and best byte/s, credited as
   STREAM does (16 or 24 bytes for each element). The results are checked. */
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#if defined(__AVX512F__) || defined(__AVX__) || defined(__SSE2__)
#include <immintrin.h>
#endif

#define LOOP(body) _Pragma("omp parallel for schedule(static)") for (size_t i = 0; i < n; i++) { body; }
#define TIMED(k, code) { double t = omp_get_wtime(); code; t = omp_get_wtime() - t; if (t < best[k]) best[k] = t; }

static void nt_copy(double *restrict c, const double *restrict a, size_t n) {
#if defined(__AVX512F__)
    _Pragma("omp parallel for schedule(static)") for (size_t i = 0; i < n; i += 8) _mm512_stream_pd(c + i, _mm512_load_pd(a + i));
    _mm_sfence();
#elif defined(__AVX__)
    _Pragma("omp parallel for schedule(static)") for (size_t i = 0; i < n; i += 4) _mm256_stream_pd(c + i, _mm256_load_pd(a + i));
    _mm_sfence();
#elif defined(__SSE2__)
    _Pragma("omp parallel for schedule(static)") for (size_t i = 0; i < n; i += 2) _mm_stream_pd(c + i, _mm_load_pd(a + i));
    _mm_sfence();
#else
    LOOP(c[i] = a[i])
#endif
}

int main(int argc, char **argv) {
    size_t n = strtoull(argv[1], 0, 10) & ~(size_t)511;
    int times = atoi(argv[2]);
    const char *names[] = {"copy", "scale", "add", "triad", "non-temporal copy"};
    const int bytes[] = {16, 16, 24, 24, 16};
    double best[] = {1e30, 1e30, 1e30, 1e30, 1e30}, s = 0.5, ea = 1, eb = 2, ec = 0;
    double *a = aligned_alloc(4096, n * 8), *b = aligned_alloc(4096, n * 8), *c = aligned_alloc(4096, n * 8);
    if (!a || !b || !c) return 1;
    LOOP(a[i] = ea; b[i] = eb; c[i] = ec)
    for (int r = 0; r < times; r++) {
        TIMED(0, LOOP(c[i] = a[i]))
        TIMED(1, LOOP(b[i] = s * c[i]))
        TIMED(2, LOOP(c[i] = a[i] + b[i]))
        TIMED(3, LOOP(a[i] = b[i] + s * c[i]))
        TIMED(4, nt_copy(c, a, n))
        ec = ea; eb = s * ec; ec = ea + eb; ea = eb + s * ec; ec = ea;
    }
    for (size_t i = 0; i < n; i += n / 97)
        if (fabs(a[i] - ea) > 1e-9 * fabs(ea) || fabs(b[i] - eb) > 1e-9 * fabs(eb) || c[i] != a[i]) return 2;
    for (int k = 0; k < 5; k++) printf("%s,%.6g\n", names[k], bytes[k] * (double)n / best[k]);
    return 0;
}
