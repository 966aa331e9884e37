/*
 * machine.c: measures the peak speed of this machine on as many threads as the session has workers: products and sums
 * of float32 in registers, and copies of memory that is larger than most caches. The two measurements take about 10 ms
 * each, and the first writes to the 64 MiB of memory often take longer. They give upper bounds on the speed of calls,
 * and are not a benchmark. The fastest part of each measurement counts, because other programs may interrupt a thread.
 */
#include "profile/machine.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/error.h"
#include "core/isa.h"
#include "core/threads.h"
#include "profile/analysis.h"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

enum { SUMS = 10, LOOPS = 2000, MEASURE_NS = 8000000, COPY_BYTES = 1 << 25, MOST_THREADS = 256 };

/* The result of a loop is stored here, so that the compiler cannot remove the loop. */
typedef struct burnt {
    double flops;
    float result;
} burnt;

static burnt burn_portable(void)
{
    float sums[SUMS * 8];

    for (int i = 0; i < SUMS * 8; i++)
        sums[i] = (float)i;
    for (int loop = 0; loop < LOOPS; loop++)
        for (int i = 0; i < SUMS * 8; i++)
            sums[i] = sums[i] * 0.999f + 0.001f;
    return (burnt){2.0 * SUMS * 8 * LOOPS, sums[0] + sums[SUMS * 8 - 1]};
}

#if defined(__x86_64__)
/* The compiler unrolls the loop over the sums, and so keeps them in registers. */
#define BURN(name, isa, lane_count, vector, set, fma)                                                                  \
    __attribute__((target(isa))) static burnt name(void)                                                               \
    {                                                                                                                  \
        const vector factor = set(0.999f), term = set(0.001f);                                                         \
        vector sums[SUMS];                                                                                             \
                                                                                                                       \
        for (int i = 0; i < SUMS; i++)                                                                                 \
            sums[i] = set((float)i);                                                                                   \
        for (int loop = 0; loop < LOOPS; loop++)                                                                       \
            _Pragma("GCC unroll 10") for (int i = 0; i < SUMS; i++) sums[i] = fma(sums[i], factor, term);              \
        for (int i = 1; i < SUMS; i++)                                                                                 \
            sums[0] += sums[i];                                                                                        \
        return (burnt){2.0 * SUMS * lane_count * LOOPS, ((const float *)(const void *)&sums[0])[0]};                   \
    }
BURN(burn_avx2, "avx2,fma", 8, __m256, _mm256_set1_ps, _mm256_fmadd_ps)
BURN(burn_avx512, "avx512f", 16, __m512, _mm512_set1_ps, _mm512_fmadd_ps)
#elif defined(__aarch64__)
static burnt burn_neon(void)
{
    const float32x4_t factor = vdupq_n_f32(0.999f), term = vdupq_n_f32(0.001f);
    float32x4_t sums[2 * SUMS];

    for (int i = 0; i < 2 * SUMS; i++)
        sums[i] = vdupq_n_f32((float)i);
    for (int loop = 0; loop < LOOPS; loop++)
        _Pragma("GCC unroll 20") for (int i = 0; i < 2 * SUMS; i++) sums[i] = vfmaq_f32(term, sums[i], factor);
    for (int i = 1; i < 2 * SUMS; i++)
        sums[0] = vaddq_f32(sums[0], sums[i]);
    return (burnt){2.0 * SUMS * 8 * LOOPS, vgetq_lane_f32(sums[0], 0)};
}
#endif

static burnt burn(void)
{
#if defined(__x86_64__)
    if (bgi_cpu_isa() >= BGI_ISA_AVX512)
        return burn_avx512();
    if (bgi_cpu_isa() >= BGI_ISA_AVX2)
        return burn_avx2();
#elif defined(__aarch64__)
    if (bgi_cpu_isa() == BGI_ISA_NEON)
        return burn_neon();
#endif
    return burn_portable();
}

double bgi_machine_multiply(volatile float *result)
{
    const burnt some = burn();

    *result = some.result;
    return some.flops;
}

typedef struct measurement {
    pthread_t thread;
    char *from, *to;
    size_t size_bytes;
    double flops_per_s, bytes_per_s;
    volatile float result;
} measurement;

static void *measure(void *argument)
{
    measurement *m = argument;
    uint64_t begin_ns = bgi_clock_ns(), before_ns = begin_ns, now_ns = begin_ns;

    while (now_ns - begin_ns < MEASURE_NS) {
        const double flops = bgi_machine_multiply(&m->result);
        now_ns = bgi_clock_ns();
        m->flops_per_s = fmax(m->flops_per_s, 1e9 * flops / (double)(now_ns - before_ns));
        before_ns = now_ns;
    }
    memset(m->from, 1, m->size_bytes);
    memset(m->to, 2, m->size_bytes);
    begin_ns = before_ns = now_ns = bgi_clock_ns();
    while (now_ns - begin_ns < MEASURE_NS) {
        memcpy(m->to, m->from, m->size_bytes);
        now_ns = bgi_clock_ns();
        m->bytes_per_s = fmax(m->bytes_per_s, 2e9 * (double)m->size_bytes / (double)(now_ns - before_ns));
        before_ns = now_ns;
    }
    return NULL;
}

bg_status bgi_machine_measure(uint32_t workers, bgi_machine *out, bg_error *error)
{
    const uint32_t count = workers < 1 ? 1 : workers > MOST_THREADS ? MOST_THREADS : workers;
    const size_t each = COPY_BYTES / count;
    measurement *all = calloc(count, sizeof *all);
    char *memory = malloc(2 * each * count);
    uint32_t started = 0;

    if (all == NULL || memory == NULL) {
        free(all);
        free(memory);
        return bgi_error_memory(error, "measuring the machine", 2 * each * count);
    }
    *out = (bgi_machine){.processors = bg_processor_count(), .workers = workers};
    for (uint32_t i = 0; i < count; i++) {
        all[i].from = memory + 2 * i * each;
        all[i].to = all[i].from + each;
        all[i].size_bytes = each;
        if (bgi_thread_create(&all[i].thread, measure, &all[i]) != 0)
            break;
        started++;
    }
    for (uint32_t i = 0; i < started; i++) {
        pthread_join(all[i].thread, NULL);
        out->flops_per_s += all[i].flops_per_s;
        out->bytes_per_s += all[i].bytes_per_s;
    }
    free(all);
    free(memory);
    return started > 0
               ? BG_OK
               : bg_error_set(error, BG_ERROR_IO, "the system refused a thread for measuring the machine's speed");
}
