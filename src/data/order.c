/*
 * order.c: shuffles the samples of an epoch, and divides them among processes.
 */
#include "data/order.h"

#include "core/random.h"

bgi_order_part bgi_order_part_of(const bgi_order *order, uint64_t epoch)
{
    const uint64_t n = order->sample_count, processes = order->process_count, index = order->process_index;

    if (order->drop_last) {
        /* With several processes, parts are shifted by the remainder in odd epochs. With one process the remainder is
         * always at the end. */
        const uint64_t each = order->batch_size * (n / order->batch_size / processes);
        const uint64_t left_over = processes > 1 ? n - each * processes : 0;

        return (bgi_order_part){index * each + (epoch % 2 == 1 ? left_over : 0), each};
    }
    const uint64_t each = n / processes, longer = n % processes;
    return (bgi_order_part){index * each + (index < longer ? index : longer), each + (index < longer ? 1 : 0)};
}

uint64_t bgi_order_batch_count(const bgi_order *order)
{
    const uint64_t count = bgi_order_part_of(order, 0).count;

    return count / order->batch_size + (count % order->batch_size > 0);
}

/* Shuffles with a limited buffer. The buffer of step i is the range [i, i + buffer) of the array itself, and the step
 * swaps element i with a random element of the buffer. */
static void shuffle_window(bgi_random *random, uint32_t *indices, uint64_t count, uint64_t buffer)
{
    for (uint64_t i = 0; i + 1 < count; i++) {
        const uint64_t window = count - i < buffer ? count - i : buffer;
        const uint64_t other = i + bgi_random_below(random, (uint32_t)window);
        const uint32_t kept = indices[i];

        indices[i] = indices[other];
        indices[other] = kept;
    }
}

void bgi_order_fill(const bgi_order *order, uint64_t epoch, uint32_t *indices)
{
    for (uint64_t i = 0; i < order->sample_count; i++)
        indices[i] = (uint32_t)i;
    if (order->shuffle) {
        bgi_random random = bgi_random_make(bgi_random_domain(order->seed, BGI_RANDOM_LOADER), epoch);
        if (order->shuffle_buffer == 0 || order->shuffle_buffer >= order->sample_count)
            bgi_random_shuffle(&random, indices, order->sample_count);
        else
            shuffle_window(&random, indices, order->sample_count, order->shuffle_buffer);
    }
}
