/*
 * balance.c: finds the best cut of a line of items into stages by dynamic programming.
 *
 *     best[k][end] = min over first of max(best[k - 1][first], cost(k, first, end))
 *
 * where stage k has items first..end-1 and cost is its time, or infinite when its memory exceeds its device's budget.
 * Stages differ in speed, budget and depth, so `best` is not monotonic and bisection does not apply. Time and memory
 * grow as `first` decreases, so the inner loop ends once either is too large. For n items and N stages of equal length
 * this takes about n^2 steps instead of n^2 N.
 */
#include "plan/balance.h"

#include <math.h>
#include <stdlib.h>

#include "core/error.h"

typedef struct bgi_balancer {
    const bgi_balance *balance;
    bool minimizes_bytes;  /* minimizes bytes instead of time, without budgets */
    bool minimizes_excess; /* minimizes the bytes above the budget */
    double *best;          /* by end: the cost of the stages so far */
    double *next;
    uint32_t *first; /* [stage * (item_count + 1) + end] */
} bgi_balancer;

/* Returns the bytes that an item adds to a stage that ends before item `end`, when the item becomes the stage's first
 * one. */
static size_t added_bytes(const bgi_balance *balance, uint32_t stage, uint32_t item, uint32_t end)
{
    const bgi_balance_item *i = &balance->items[item];
    const size_t depth = balance->stage_depths != NULL ? balance->stage_depths[stage] : 1;
    size_t bytes = i->held_bytes;

    for (uint32_t k = 0; k < i->kept_count; k++)
        if (i->kept[k].next_item >= end)
            bytes += depth * i->kept[k].bytes;
    return bytes;
}

size_t bgi_balance_bytes(const bgi_balance *balance, uint32_t stage, uint32_t first, uint32_t end)
{
    size_t bytes = 0;

    for (uint32_t item = first; item < end; item++)
        bytes += added_bytes(balance, stage, item, end);
    return bytes;
}

static double speed_of(const bgi_balance *balance, uint32_t stage)
{
    return balance->stage_speeds != NULL ? balance->stage_speeds[stage] : 1.0;
}

static size_t budget_of(const bgi_balancer *b, uint32_t stage)
{
    const size_t *budgets = b->balance->stage_budgets;

    return b->minimizes_bytes || budgets == NULL || budgets[stage] == 0 ? SIZE_MAX : budgets[stage];
}

static bool is_refused(const bgi_balance *balance, uint32_t stage, uint32_t first, uint32_t end)
{
    for (uint32_t i = 0; i < balance->refused_count; i++)
        if (balance->refused[i].stage == stage && balance->refused[i].first == first && balance->refused[i].end == end)
            return true;
    return false;
}

/* Returns the cost of a stage, of which the largest is minimized: its bytes above its budget, its bytes, or its time.
 */
static double find_cost(const bgi_balancer *b, uint32_t stage, double ns, size_t bytes)
{
    const size_t budget = budget_of(b, stage);

    if (b->minimizes_excess)
        return bytes > budget ? (double)(bytes - budget) : 0.0;
    return b->minimizes_bytes ? (double)bytes : ns / speed_of(b->balance, stage);
}

/* Finds the best first item for a stage that ends before `end`. */
static void choose_first(bgi_balancer *b, uint32_t stage, uint32_t end)
{
    const bgi_balance *balance = b->balance;
    uint32_t *chosen = &b->first[(size_t)stage * (balance->item_count + 1) + end];
    double ns = 0, best = INFINITY;
    size_t bytes = 0;

    for (uint32_t first = end; first-- > stage;) {
        double cost, longest;
        ns += balance->items[first].ns;
        bytes += added_bytes(balance, stage, first, end);
        cost = find_cost(b, stage, ns, bytes);
        if (cost >= best || (!b->minimizes_excess && bytes > budget_of(b, stage)))
            break;
        if (is_refused(balance, stage, first, end))
            continue;
        longest = b->best[first] > cost ? b->best[first] : cost;
        if (longest < best) {
            best = longest;
            *chosen = first;
        }
    }
    b->next[end] = best;
}

/* Finds the best cut: fills `first`, and sets best[item_count] to the largest cost of a stage. */
static bg_status run(bgi_balancer *b, bg_error *error)
{
    const uint32_t items = b->balance->item_count, stages = b->balance->stage_count;

    b->best = malloc((items + 1) * sizeof *b->best);
    b->next = malloc((items + 1) * sizeof *b->next);
    b->first = calloc((size_t)stages * (items + 1), sizeof *b->first);
    if (b->best == NULL || b->next == NULL || b->first == NULL)
        return bgi_error_memory(error, "automatic stages", (size_t)stages * (items + 1) * sizeof *b->first);
    for (uint32_t end = 0; end <= items; end++)
        b->best[end] = end == 0 ? 0.0 : INFINITY;
    for (uint32_t stage = 0; stage < stages; stage++) {
        double *swapped = b->best;
        for (uint32_t end = 0; end <= items; end++)
            b->next[end] = INFINITY;
        for (uint32_t end = stage + 1; end <= items; end++)
            choose_first(b, stage, end);
        b->best = b->next;
        b->next = swapped;
    }
    return BG_OK;
}

static void clear(bgi_balancer *b)
{
    free(b->best);
    free(b->next);
    free(b->first);
}

bg_status bgi_balance_least_budget(const bgi_balance *balance, size_t *out_bytes, bg_error *error)
{
    bgi_balance whole = *balance;
    bgi_balancer b = {.balance = &whole, .minimizes_bytes = true};
    bg_status status;

    whole.refused_count = 0;
    status = run(&b, error);
    if (status == BG_OK)
        *out_bytes = (size_t)b.best[balance->item_count];
    clear(&b);
    return status;
}

/* Returns the largest held_bytes of an item. */
static size_t largest_held_bytes(const bgi_balance *balance)
{
    size_t most = 0;

    for (uint32_t i = 0; i < balance->item_count; i++)
        most = balance->items[i].held_bytes > most ? balance->items[i].held_bytes : most;
    return most;
}

static size_t largest_budget(const bgi_balance *balance)
{
    size_t most = 0;

    for (uint32_t s = 0; s < balance->stage_count; s++) {
        if (balance->stage_budgets == NULL || balance->stage_budgets[s] == 0)
            return SIZE_MAX;
        most = balance->stage_budgets[s] > most ? balance->stage_budgets[s] : most;
    }
    return most;
}

static bg_status refuse_budgets(const bgi_balance *balance, bg_error *error)
{
    const char *remedy = ", or use more stages";
    size_t least = 0;

    BGI_TRY(bgi_balance_least_budget(balance, &least, error));
    if (largest_held_bytes(balance) > largest_budget(balance))
        remedy = " (more stages do not help, because a part of the model that is never divided exceeds it)";
    else if (balance->stage_count == balance->item_count)
        remedy = " (there cannot be more stages, because every part that can be a stage is one)";
    return bg_error_set(
        error, BG_ERROR_BUDGET,
        "no cut into %u stages fits the devices' memory; in every cut, one of the stages needs a budget of at least "
        "%zu bytes for weights, gradients, state and stash, plus the kernels' working memory: raise the budget%s",
        balance->stage_count, least, remedy);
}

/* Returns the time of items first .. end - 1 as stage `stage`. */
static double time_of(const bgi_balance *balance, uint32_t stage, uint32_t first, uint32_t end)
{
    double ns = 0;

    while (end-- > first)
        ns += balance->items[end].ns;
    return ns / speed_of(balance, stage);
}

static bg_status cut(bgi_balancer *b, uint32_t *out_first, double *out_longest, bg_error *error)
{
    const bgi_balance *balance = b->balance;
    uint32_t end = balance->item_count;
    bg_status status = run(b, error);

    if (status == BG_OK && !isfinite(b->best[end]))
        status = refuse_budgets(balance, error);
    *out_longest = 0;
    for (uint32_t stage = balance->stage_count; status == BG_OK && stage-- > 0; end = out_first[stage]) {
        double ns;
        out_first[stage] = b->first[(size_t)stage * (balance->item_count + 1) + end];
        ns = time_of(balance, stage, out_first[stage], end);
        *out_longest = ns > *out_longest ? ns : *out_longest;
    }
    clear(b);
    return status;
}

bg_status bgi_balance_cut(const bgi_balance *balance, uint32_t *out_first, double *out_longest, bg_error *error)
{
    bgi_balancer b = {.balance = balance};

    return cut(&b, out_first, out_longest, error);
}

bg_status bgi_balance_cut_tightly(const bgi_balance *balance, uint32_t *out_first, double *out_longest, bg_error *error)
{
    bgi_balancer b = {.balance = balance, .minimizes_excess = true};

    return cut(&b, out_first, out_longest, error);
}
