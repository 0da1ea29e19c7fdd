// What a processor can do, written without torch: multiply-adds in registers, walks through memory.
// One thread a call; each gives the best of short samples. Vectors are GCC's, as wide as registers.
#include <time.h>

#if defined(__AVX512F__)
#define BYTES 64
#define CHAINS 24   // independent, and with two factors below the number of registers
#elif defined(__AVX__)
#define BYTES 32
#define CHAINS 12
#else
#define BYTES 16
#define CHAINS 24
#endif
typedef float vector __attribute__((vector_size(BYTES)));

static volatile float kept;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9*t.tv_nsec;
}

// FLOP/s of float32: `steps` multiply-adds in each chain are a sample
double multiply_adds(double seconds, long steps) {
    vector chain[CHAINS], factor = {0}, term = {0};
    factor += 0.999f;
    term += 1e-3f;
    for (int i = 0; i < CHAINS; i++) chain[i] = term*(float)i;
    double best = 0, end = now() + seconds;
    do {
        double start = now();
        for (long k = 0; k < steps; k++) {
#pragma GCC unroll 32
            for (int i = 0; i < CHAINS; i++) chain[i] = chain[i]*factor + term;
        }
        double rate = 2.*BYTES/sizeof(float)*CHAINS*steps/(now() - start);
        if (rate > best) best = rate;
        float sum = 0;
        for (int i = 0; i < CHAINS; i++) sum += chain[i][0];
        kept = sum;
    } while (now() < end);
    return best;
}

// Bytes/s of reading, copying, STREAM's triad or updating (0, 1, 2, 3): bytes that the loop names.
// A sample is a chunk; the next one begins where it ended, so that no cache holds it.
double walk(int kind, double seconds, float *data, long n, long chunk) {
    static const int arrays[] = {1, 2, 3, 1}, named[] = {4, 8, 12, 8};
    long part = n/arrays[kind]/chunk*chunk, at = 0;
    double best = 0, end = now() + seconds;
    do {
        float *restrict a = data + at, *restrict b = a + part, *restrict c = b + part, sum = 0;
        double start = now();
        if (kind == 0) for (long i = 0; i < chunk; i++) sum += a[i];
        if (kind == 1) for (long i = 0; i < chunk; i++) b[i] = a[i];
        if (kind == 2) for (long i = 0; i < chunk; i++) c[i] = a[i] + 3*b[i];
        if (kind == 3) for (long i = 0; i < chunk; i++) a[i] = -a[i];
        kept = sum;
        double rate = (double)named[kind]*chunk/(now() - start);
        if (rate > best) best = rate;
        at = at + 2*chunk > part ? 0 : at + chunk;
    } while (now() < end);
    return best;
}
