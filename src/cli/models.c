/*
 * models.c: defines the table of models.
 */
#include "cli/model.h"

#include <string.h>

#define CLI_MODEL(name) extern const cli_model cli_model_##name;
#include "cli/models.def"
#undef CLI_MODEL

#define CLI_MODEL(name) &cli_model_##name,
static const cli_model *const models[] = {
#include "cli/models.def"
    NULL,
};

const cli_model *cli_model_at(uint32_t index)
{
    return models[index];
}

const cli_model *cli_model_find(const char *name)
{
    const cli_model *const *model = models;

    while (*model != NULL && strcmp((*model)->name, name) != 0)
        model++;
    return *model;
}
