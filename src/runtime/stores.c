/*
 * stores.c: finds which weights a session has in files of remote buffers.
 */
#include "runtime/session.h"

#include <string.h>

/* Whether files have the values of all sections of the variable's weight that this session has. */
bool bgi_session_is_in_stores(const bg_session *session, uint32_t number)
{
    const bgi_plan_variable *variable = &session->plan->variables[number];

    if (session->memmap == NULL || variable->places[0].operand.memory != BGI_MEMORY_REMOTE)
        return false;
    for (uint32_t i = 0; variable->section != NULL && i < session->plan->variable_count; i++) {
        const bgi_plan_variable *other = &session->plan->variables[i];
        if (other->section != NULL && other->places[0].operand.memory != BGI_MEMORY_REMOTE &&
            strcmp(other->section->name, variable->section->name) == 0)
            return false;
    }
    return true;
}
