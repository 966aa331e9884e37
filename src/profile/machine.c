/*
 * machine.c: measures the peak speed of this machine on as many threads as the session has workers: products and sums
 * of float32 in registers, and copies of memory that is larger than most caches. The two measurements take about 10 ms
 * each. They give upper bounds on the speed of calls, and are not a benchmark. The fastest part of each counts, because
 * other programs may interrupt a thread.
 */
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

/* Independent sums are in separate variables, because an array of them would be in memory. */
#define EACH_SUM(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9)

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
__attribute__((target("avx2,fma"))) static burnt burn_avx2(void)
{
    const __m256 factor = _mm256_set1_ps(0.999f), term = _mm256_set1_ps(0.001f);
    float lanes[8];

#define BEGIN(i) __m256 sum_##i = _mm256_set1_ps((float)(i));
#define STEP(i)  sum_##i = _mm256_fmadd_ps(sum_##i, factor, term);
#define ADD(i)   all = _mm256_add_ps(all, sum_##i);
    EACH_SUM(BEGIN)
    __m256 all = term;
    for (int loop = 0; loop < LOOPS; loop++) {
        EACH_SUM(STEP)
    }
    EACH_SUM(ADD)
#undef BEGIN
#undef STEP
#undef ADD
    _mm256_storeu_ps(lanes, all);
    return (burnt){2.0 * SUMS * 8 * LOOPS, lanes[0]};
}

__attribute__((target("avx512f"))) static burnt burn_avx512(void)
{
    const __m512 factor = _mm512_set1_ps(0.999f), term = _mm512_set1_ps(0.001f);
    float lanes[16];

#define BEGIN(i) __m512 sum_##i = _mm512_set1_ps((float)(i));
#define STEP(i)  sum_##i = _mm512_fmadd_ps(sum_##i, factor, term);
#define ADD(i)   all = _mm512_add_ps(all, sum_##i);
    EACH_SUM(BEGIN)
    __m512 all = term;
    for (int loop = 0; loop < LOOPS; loop++) {
        EACH_SUM(STEP)
    }
    EACH_SUM(ADD)
#undef BEGIN
#undef STEP
#undef ADD
    _mm512_storeu_ps(lanes, all);
    return (burnt){2.0 * SUMS * 16 * LOOPS, lanes[0]};
}
#elif defined(__aarch64__)
static burnt burn_neon(void)
{
    const float32x4_t factor = vdupq_n_f32(0.999f), term = vdupq_n_f32(0.001f);

#define BEGIN(i) float32x4_t sum_##i = vdupq_n_f32((float)(i)), more_##i = vdupq_n_f32(-(float)(i));
#define STEP(i)                                                                                                        \
    sum_##i = vfmaq_f32(term, sum_##i, factor);                                                                        \
    more_##i = vfmaq_f32(term, more_##i, factor);
#define ADD(i) all = vaddq_f32(all, vaddq_f32(sum_##i, more_##i));
    EACH_SUM(BEGIN)
    float32x4_t all = term;
    for (int loop = 0; loop < LOOPS; loop++) {
        EACH_SUM(STEP)
    }
    EACH_SUM(ADD)
#undef BEGIN
#undef STEP
#undef ADD
    return (burnt){2.0 * SUMS * 8 * LOOPS, vgetq_lane_f32(all, 0)};
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
        const burnt some = burn();
        m->result = some.result;
        now_ns = bgi_clock_ns();
        m->flops_per_s = fmax(m->flops_per_s, 1e9 * some.flops / (double)(now_ns - before_ns));
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
    return started > 0 ? BG_OK : bg_error_set(error, BG_ERROR_IO, "the system refused a thread to measure the machine");
}
