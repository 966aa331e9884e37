/*
 * weights.c: implements the table of named weights.
 */
#include "runtime/weights.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "core/arena.h"
#include "core/error.h"
#include "core/section.h"

bg_status bg_weights_create(bg_weights **out, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(out, "out", __func__, error));
    return bg_weights_create_in(NULL, out, error);
}

bg_status bg_weights_create_in(const bg_allocator *allocator, bg_weights **out, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(out, "out", __func__, error));
    BGI_TRY(bgi_allocator_check(allocator, error));

    bg_weights *weights = bgi_take_pages(1, sizeof *weights);

    if (weights == NULL)
        return bgi_error_memory(error, "weights", sizeof *weights);
    if (!bgi_publication_init(&weights->publication)) {
        free(weights);
        return bg_error_set(error, BG_ERROR_IO, "the system refused a mutex");
    }
    if (allocator != NULL)
        weights->publication.allocator = *allocator;
    weights->references = 1;
    *out = weights;
    return BG_OK;
}

void bg_weights_destroy(bg_weights *weights)
{
    if (weights == NULL || atomic_fetch_sub(&weights->references, 1) > 1)
        return;
    bgi_weights_truncate(weights, 0);
    bgi_weights_drop_view(weights);
    bgi_publication_clear(&weights->publication);
    free(weights->items);
    free(weights);
}

/* ---- one thread at a time ---- */

static bool try_enter(bg_weights *weights, const bg_session *session, const char *action)
{
    uintptr_t none = 0;

    if (!atomic_compare_exchange_strong(&weights->thread, &none, (uintptr_t)pthread_self()))
        return false;
    atomic_store_explicit(&weights->session, session, memory_order_relaxed);
    atomic_store_explicit(&weights->action, action, memory_order_relaxed);
    return true;
}

static bool is_inside(bg_weights *weights)
{
    return atomic_load_explicit(&weights->thread, memory_order_relaxed) == (uintptr_t)pthread_self();
}

/* Reports that another action uses the weights. While the message is written, the other thread may leave or begin
 * another action. */
static bg_status refuse(bg_weights *weights, const bg_session *session, const char *action, bg_error *error)
{
    const bg_session *other = atomic_load_explicit(&weights->session, memory_order_relaxed);
    const char *others = atomic_load_explicit(&weights->action, memory_order_relaxed);

    if (others == NULL)
        others = "a call";
    if (is_inside(weights))
        return bg_error_set(error, BG_ERROR_INVALID,
                            "%s: called within %s that uses the same weights, from one of its callbacks or kernels; "
                            "call it after the action has ended",
                            action, others);
    if (session != NULL && other == session)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "%s: another thread uses this session, for %s; a session is used by one thread at a time: "
                            "give each thread a session and weights of its own, or wait for the other thread",
                            action, others);
    return bg_error_set(error, BG_ERROR_INVALID,
                        "%s: another thread uses the same weights, for %s%s; weights, and all sessions that share "
                        "them, are used by one thread at a time: give each thread weights of its own "
                        "(bg_session_create with weights NULL), or wait for the other thread",
                        action, others, other != NULL && session != NULL ? " of another session" : "");
}

bg_status bgi_weights_enter(bg_weights *weights, const bg_session *session, const char *action, bg_error *error)
{
    return try_enter(weights, session, action) ? BG_OK : refuse(weights, session, action, error);
}

void bgi_weights_enter_late(bg_weights *weights, const bg_session *session, const char *action)
{
    while (!try_enter(weights, session, action))
        sched_yield();
}

void bgi_weights_leave(bg_weights *weights)
{
    atomic_store(&weights->thread, 0);
}

/* ---- the table ---- */

uint32_t bg_weights_count(const bg_weights *weights)
{
    return weights->count - weights->gone_count;
}

uint32_t bgi_weights_index(const bg_weights *weights, const char *name)
{
    for (uint32_t i = 0; i < weights->count; i++)
        if (!weights->items[i].is_gone && strcmp(weights->items[i].name, name) == 0)
            return i;
    return UINT32_MAX;
}

void bgi_weights_truncate(bg_weights *weights, uint32_t count)
{
    while (weights->count > count) {
        const uint32_t last = weights->count - 1;
        bgi_weights_drop_data(weights, last);
        weights->gone_count -= weights->items[last].is_gone;
        free(weights->items[last].name);
        weights->count = last;
        weights->epoch++;
    }
}

static void *take_value(const bg_weights *weights, const bg_type *type)
{
    return bgi_memory_take(&weights->publication.allocator, BGI_WEIGHT_ALIGNMENT, bg_type_size_bytes(type));
}

bg_status bgi_weights_add(bg_weights *weights, const char *name, const bg_type *type, bg_variable_role role,
                          bg_session *home, uint32_t home_variable, bg_error *error)
{
    const size_t name_bytes = strlen(name) + 1;
    bgi_weight weight = {.type = *type, .role = role, .version = 1, .home = home, .home_variable = home_variable};

    if (!bgi_array_reserve((void **)&weights->items, &weights->capacity, (size_t)weights->count + 1,
                           sizeof *weights->items))
        return bgi_error_memory(error, "weights", sizeof weight);
    weight.name = malloc(name_bytes);
    if (home == NULL)
        weight.data =
            bgi_memory_reserve(&weights->publication.allocator, BGI_WEIGHT_ALIGNMENT, bg_type_size_bytes(type));
    if (weight.name == NULL || (home == NULL && weight.data == NULL)) {
        free(weight.name);
        bgi_memory_return(&weights->publication.allocator, weight.data, bg_type_size_bytes(type));
        return bgi_error_memory(error, name, bg_type_size_bytes(type));
    }
    memcpy(weight.name, name, name_bytes);
    weights->items[weights->count++] = weight;
    weights->epoch++;
    return BG_OK;
}

bg_status bgi_weights_borrow(bg_weights *weights, const char *name, const bg_type *type, bg_variable_role role,
                             void *data, bg_error *error)
{
    bgi_weight weight = {.type = *type, .role = role, .version = 1, .data = data, .is_borrowed = true};

    if (bgi_array_reserve((void **)&weights->items, &weights->capacity, (size_t)weights->count + 1,
                          sizeof *weights->items))
        weight.name = strdup(name);
    if (weight.name == NULL)
        return bgi_error_memory(error, name, sizeof weight);
    weights->items[weights->count++] = weight;
    weights->epoch++;
    return BG_OK;
}

bg_status bgi_weights_take_view(bg_weights *weights, uint32_t index, void **out, bg_error *error)
{
    const size_t size_bytes = bg_type_size_bytes(&weights->items[index].type);

    if (size_bytes > weights->view_bytes) {
        bgi_weights_drop_view(weights);
        weights->view = bgi_memory_take(&weights->publication.allocator, BGI_WEIGHT_ALIGNMENT, size_bytes);
        weights->view_bytes = weights->view != NULL ? size_bytes : 0;
        if (weights->view == NULL)
            return bgi_error_memory(error, weights->items[index].name, size_bytes);
    }
    *out = weights->view;
    return BG_OK;
}

void bgi_weights_drop_view(bg_weights *weights)
{
    bgi_memory_return(&weights->publication.allocator, weights->view, weights->view_bytes);
    weights->view = NULL;
    weights->view_bytes = 0;
}

/* Moves the newest value home from another session. */
static bg_status bring_home(bg_weights *weights, uint32_t index, bg_error *error)
{
    bgi_weight *weight = &weights->items[index];
    void *view = NULL;

    BGI_TRY(bgi_weights_take_view(weights, index, &view, error));
    BGI_TRY(weights->holder->download(weight->newest, weight->newest_variable, NULL, view, error));
    return weights->holder->adopt(weight->home, weight->home_variable, view, error);
}

bg_status bgi_weights_pull(bg_weights *weights, uint32_t index, bg_error *error)
{
    bgi_weight *weight = &weights->items[index];

    if (weight->is_lost)
        return bg_error_set(
            error, BG_ERROR_INVALID,
            "weight `%s`: its newest value was in a session whose run failed; set it again, for instance "
            "from a checkpoint",
            weight->name);
    if (weight->newest == NULL)
        return BG_OK;
    if (weight->home == NULL && !bgi_weights_own(weights, index, false))
        return bgi_error_memory(error, weight->name, bg_type_size_bytes(&weight->type));
    if (weight->home == NULL)
        BGI_TRY(weights->holder->download(weight->newest, weight->newest_variable, NULL, weight->data, error));
    else if (weight->newest != weight->home)
        BGI_TRY(bring_home(weights, index, error));
    weight->newest = NULL;
    weights->epoch++;
    return BG_OK;
}

bool bgi_weights_takes_ranks(const bg_weights *weights, uint32_t index)
{
    const bgi_weight *weight = &weights->items[index];

    return !weight->is_lost && ((weight->newest != NULL && weights->holder->is_of_ranks(weight->newest)) ||
                                (weight->home != NULL && weights->holder->is_of_ranks(weight->home)));
}

bg_status bgi_weights_fetch(bg_weights *weights, uint32_t index, const void **out, bg_error *error)
{
    bgi_weight *weight = &weights->items[index];
    void *view = NULL;

    if (weights->serving != NULL && bgi_weights_takes_ranks(weights, index))
        BGI_TRY(weights->holder->announce(weights->serving, index, error));
    BGI_TRY(bgi_weights_pull(weights, index, error));
    *out = weight->home != NULL ? weights->holder->whole(weight->home, weight->home_variable) : weight->data;
    if (*out != NULL)
        return BG_OK;
    if (weights->readers == NULL || weights->is_reader)
        BGI_TRY(bgi_weights_take_view(weights, index, &view, error));
    BGI_TRY(weights->holder->download(weight->home, weight->home_variable, weights->readers, view, error));
    *out = view;
    return BG_OK;
}

bg_status bgi_weights_fetch_for(bg_weights *weights, uint32_t index, const bool *readers, uint32_t rank,
                                const void **out, bg_error *error)
{
    bg_status status;

    weights->readers = readers;
    weights->is_reader = readers == NULL || readers[rank];
    status = bgi_weights_fetch(weights, index, out, error);
    weights->readers = NULL;
    return status;
}

void bgi_weights_move_home(bg_weights *weights, uint32_t index, bg_session *home, uint32_t home_variable)
{
    bgi_weight *weight = &weights->items[index];

    bgi_weights_drop_data(weights, index);
    weight->home = home;
    weight->home_variable = home_variable;
    weight->newest = NULL;
    weights->epoch++;
}

void bgi_weights_leave_home(bg_weights *weights, uint32_t index)
{
    bgi_weight *weight = &weights->items[index];

    /* Does not request a lost value from other ranks, because they may be gone. */
    if (!weight->is_lost)
        weight->data = take_value(weights, &weight->type);
    if (weight->data == NULL ||
        weights->holder->download(weight->newest != NULL ? weight->newest : weight->home,
                                  weight->newest != NULL ? weight->newest_variable : weight->home_variable, NULL,
                                  weight->data, NULL) != BG_OK)
        weight->is_lost = true;
    weight->newest = weight->home = NULL;
    weights->epoch++;
}

/* Converts `index`, which does not count removed pieces, to a number among all items. */
static uint32_t skip_gone(const bg_weights *weights, uint32_t index)
{
    uint32_t i = 0;

    if (weights->gone_count == 0)
        return index;
    for (uint32_t before = 0; before < index || weights->items[i].is_gone; i++)
        before += !weights->items[i].is_gone;
    return i;
}

/* Sets *out to item `index`, with its newest value; here `index` counts removed pieces too. */
static bg_status describe(bg_weights *weights, uint32_t index, bg_weight *out, bg_error *error)
{
    const bgi_weight *weight;
    const void *data;

    BGI_TRY(bgi_weights_fetch(weights, index, &data, error));
    weight = &weights->items[index];
    *out = (bg_weight){.name = weight->name, .type = weight->type, .role = weight->role, .data = data};
    return BG_OK;
}

/* Returns the index of the weight that has a piece called `name`, and sets *out_number to the piece's number. Returns
 * UINT32_MAX if there is no such weight. */
static uint32_t find_whole(const bg_weights *weights, const char *name, uint32_t *out_number)
{
    for (uint32_t i = 0; i < weights->count; i++)
        if (!weights->items[i].is_gone && bgi_section_is_piece(name, weights->items[i].name, out_number))
            return i;
    return UINT32_MAX;
}

static bg_status report_absence(const bg_weights *weights, const char *name, bg_error *error)
{
    uint32_t number;
    const uint32_t whole = find_whole(weights, name, &number);

    if (whole == UINT32_MAX)
        return bg_error_set(error, BG_ERROR_NOT_FOUND, "there is no weight `%s`", name);
    return bg_error_set(error, BG_ERROR_NOT_FOUND, "there is no weight `%s`; the weights have the whole, `%s`", name,
                        weights->items[whole].name);
}

bg_status bg_weights_at(bg_weights *weights, uint32_t index, bg_weight *out, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(weights, "weights", __func__, error));
    BGI_TRY(bgi_require(out, "out", __func__, error));

    bg_status status;

    BGI_TRY(bgi_weights_enter(weights, NULL, "bg_weights_at", error));
    if (index < bg_weights_count(weights))
        status = describe(weights, skip_gone(weights, index), out, error);
    else
        status = bg_error_set(error, BG_ERROR_INVALID, "weight is %u but must be below %u, the number of weights",
                              index, bg_weights_count(weights));
    bgi_weights_leave(weights);
    return status;
}

bg_status bg_weights_find(bg_weights *weights, const char *name, bg_weight *out, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(weights, "weights", __func__, error));
    BGI_TRY(bgi_require(name, "name", __func__, error));
    BGI_TRY(bgi_require(out, "out", __func__, error));

    bg_status status;
    uint32_t index;

    BGI_TRY(bgi_weights_enter(weights, NULL, "bg_weights_find", error));
    index = bgi_weights_index(weights, name);
    if (index == UINT32_MAX)
        status = report_absence(weights, name, error);
    else
        status = describe(weights, index, out, error);
    bgi_weights_leave(weights);
    return status;
}

/* Sets the range of a weight's value that is piece `number`. */
static bg_status set_piece(bg_weights *weights, uint32_t index, uint32_t number, const bg_type *type, const void *data,
                           bg_error *error)
{
    bgi_weight *weight = &weights->items[index];
    bg_section section;
    const void *now;
    void *whole;

    if (weight->home == NULL && !bgi_weights_own(weights, index, true))
        return bgi_error_memory(error, weight->name, bg_type_size_bytes(&weight->type));
    BGI_TRY(bgi_section_of_piece(weight->name, &weight->type, number, type, &section, error));
    BGI_TRY(bgi_weights_fetch(weights, index, &now, error));
    whole = weight->data;
    if (weight->home != NULL) {
        BGI_TRY(bgi_weights_take_view(weights, index, &whole, error));
        if (whole != now)
            memcpy(whole, now, bg_type_size_bytes(&weight->type));
    }
    bgi_section_join(&section, data, whole);
    weight->version++;
    weights->epoch++;
    if (weight->home != NULL)
        BGI_TRY(weights->holder->adopt(weight->home, weight->home_variable, whole, error));
    weight->is_given = true;
    return BG_OK;
}

static bg_status check_type(const bgi_weight *weight, const bg_type *type, bg_error *error)
{
    char have[BG_TYPE_TEXT_BYTES], given[BG_TYPE_TEXT_BYTES];

    if (bg_type_equal(&weight->type, type))
        return BG_OK;
    return bg_error_set(error, BG_ERROR_SHAPE, "weight `%s` is %s, but the given value is %s", weight->name,
                        bg_type_text(&weight->type, have), bg_type_text(type, given));
}

bg_status bg_weights_set(bg_weights *weights, const char *name, const bg_type *type, const void *data, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(weights, "weights", __func__, error));
    BGI_TRY(bgi_require(name, "name", __func__, error));
    BGI_TRY(bgi_require(type, "type", __func__, error));

    bg_status status;

    BGI_TRY(bgi_weights_enter(weights, NULL, "bg_weights_set", error));
    status = bgi_weights_set(weights, name, type, data, error);
    bgi_weights_leave(weights);
    return status;
}

bg_status bgi_weights_set(bg_weights *weights, const char *name, const bg_type *type, const void *data, bg_error *error)
{
    uint32_t index, whole, number = 0;
    bgi_weight *weight;

    if (name == NULL || type == NULL || data == NULL)
        return bg_error_set(error, BG_ERROR_INVALID, "the weight has no %s",
                            name == NULL   ? "name"
                            : type == NULL ? "type"
                                           : "value");
    index = bgi_weights_index(weights, name);
    BGI_TRY(bg_type_validate(type, error));
    whole = index == UINT32_MAX ? find_whole(weights, name, &number) : UINT32_MAX;
    if (whole != UINT32_MAX)
        return set_piece(weights, whole, number, type, data, error);
    if (index == UINT32_MAX) {
        index = weights->count;
        BGI_TRY(bgi_weights_add(weights, name, type, BG_ROLE_PARAMETER, NULL, 0, error));
    }
    weight = &weights->items[index];
    BGI_TRY(check_type(weight, type, error));
    if (weight->home == NULL && weight->data == NULL)
        weight->data = take_value(weights, type); /* there was no memory for the value when its home ended */
    if (weight->home == NULL && (weight->data == NULL || !bgi_weights_own(weights, index, false)))
        return bgi_error_memory(error, name, bg_type_size_bytes(type));
    weight->version++;
    weights->epoch++;
    if (weight->home != NULL)
        BGI_TRY(weights->holder->adopt(weight->home, weight->home_variable, data, error));
    else
        memcpy(weight->data, data, bg_type_size_bytes(type));
    weight->newest = NULL;
    weight->is_lost = false;
    weight->is_given = true;
    return BG_OK;
}

/* A caller's function that writes a value, and its argument. */
typedef struct filling {
    bg_status (*write)(void *user, void *data, bg_error *error);
    void *user;
} filling;

/* Has the value written to separate memory first, so that a failure does not change the weight. */
static bg_status fill_beside(bg_weights *weights, const char *name, const bg_type *type, const filling *by,
                             bg_error *error)
{
    const bg_allocator *allocator = &weights->publication.allocator;
    const size_t size_bytes = bg_type_size_bytes(type);
    void *data = bgi_memory_reserve(allocator, BGI_WEIGHT_ALIGNMENT, size_bytes);
    bg_status status;

    if (data == NULL)
        return bgi_error_memory(error, name, size_bytes);
    status = by->write(by->user, data, error);
    if (status != BG_OK)
        status = bgi_error_unexplained(error, status, "the function that writes a weight");
    if (status == BG_OK)
        status = bgi_weights_set(weights, name, type, data, error);
    bgi_memory_return(allocator, data, size_bytes);
    return status;
}

static bg_status fill(bg_weights *weights, const char *name, const bg_type *type, const filling *by, bg_error *error)
{
    const uint32_t index = weights->count, known = bgi_weights_index(weights, name);
    uint32_t number;
    bg_status status;

    BGI_TRY(bg_type_validate(type, error));
    if (known != UINT32_MAX)
        BGI_TRY(check_type(&weights->items[known], type, error));
    if (known != UINT32_MAX || find_whole(weights, name, &number) != UINT32_MAX)
        return fill_beside(weights, name, type, by, error);
    BGI_TRY(bgi_weights_add(weights, name, type, BG_ROLE_PARAMETER, NULL, 0, error));
    weights->items[index].is_given = true;
    status = by->write(by->user, weights->items[index].data, error);
    if (status == BG_OK)
        return BG_OK;
    bgi_weights_truncate(weights, index);
    return bgi_error_unexplained(error, status, "the function that writes a weight");
}

bg_status bg_weights_fill(bg_weights *weights, const char *name, const bg_type *type,
                          bg_status (*write)(void *user, void *data, bg_error *error), void *user, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(weights, "weights", __func__, error));
    BGI_TRY(bgi_require(name, "name", __func__, error));
    BGI_TRY(bgi_require(type, "type", __func__, error));
    if (write == NULL)
        return bg_error_set(error, BG_ERROR_INVALID, "%s: write is NULL", __func__);

    const filling f = {.write = write, .user = user};
    bg_status status;

    BGI_TRY(bgi_weights_enter(weights, NULL, "bg_weights_fill", error));
    status = fill(weights, name, type, &f, error);
    bgi_weights_leave(weights);
    return status;
}

/* ---- for checkpoints ---- */

uint32_t bgi_weights_end(const bg_weights *weights)
{
    return weights->count;
}

bgi_tensor bgi_weights_tensor(const bg_weights *weights, uint32_t number)
{
    const bgi_weight *weight = &weights->items[number];

    return (bgi_tensor){.name = weight->is_gone ? NULL : weight->name,
                        .type = weight->type,
                        .role = weight->role,
                        .is_given = weight->is_given,
                        .updates = weight->updates,
                        .optimizer = weight->optimizer};
}

bg_status bgi_weights_restore(bg_weights *weights, const bgi_tensor *tensor, bool sets_role, const void *data,
                              bg_error *error)
{
    uint32_t number;
    bgi_weight *weight;

    BGI_TRY(bgi_weights_set(weights, tensor->name, &tensor->type, data, error));
    number = bgi_weights_index(weights, tensor->name);
    if (number == UINT32_MAX) /* a piece was set, and the weights have the whole */
        return BG_OK;
    weight = &weights->items[number];
    weight->is_given = tensor->is_given;
    weight->updates = tensor->updates;
    if (sets_role)
        weight->role = tensor->role;
    if (tensor->role == BG_ROLE_STATE) {
        memset(weight->optimizer, 0, sizeof weight->optimizer);
        memcpy(weight->optimizer, tensor->optimizer, strnlen(tensor->optimizer, sizeof weight->optimizer - 1));
    }
    return BG_OK;
}

uint64_t bgi_weights_step(const bg_weights *weights)
{
    return weights->step;
}

void bgi_weights_set_step(bg_weights *weights, uint64_t step)
{
    weights->step = step;
}

/* ---- pieces ---- */

static bgi_piece piece_at(const void *user, size_t index)
{
    const bgi_weight *weight = &((const bg_weights *)user)->items[index];
    const bool is_free = !weight->is_gone && !weight->is_attached && weight->data != NULL;

    return (bgi_piece){.name = is_free ? weight->name : NULL, .type = &weight->type, .data = weight->data};
}

bg_status bgi_weights_gather(const bg_weights *weights, const char *name, const bg_type *type, void *out,
                             uint32_t *out_first, bg_error *error)
{
    const bgi_piece_list list = {.user = weights, .count = weights->count, .at = piece_at};
    size_t first = SIZE_MAX;
    bg_status status = bgi_section_gather(&list, name, type, out, &first, error);

    *out_first = first < weights->count ? (uint32_t)first : UINT32_MAX;
    return status;
}

void bgi_weights_drop_pieces(bg_weights *weights)
{
    uint32_t number;

    for (uint32_t i = 0; i < weights->count; i++) {
        bgi_weight *weight = &weights->items[i];
        if (piece_at(weights, i).name == NULL || find_whole(weights, weight->name, &number) == UINT32_MAX)
            continue;
        bgi_weights_drop_data(weights, i);
        weight->is_gone = true;
        weights->gone_count++;
        weights->epoch++;
    }
}
