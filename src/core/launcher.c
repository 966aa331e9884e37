/*
 * launcher.c: lists the variables that launchers set for each process, and finds the launcher by these variables.
 */
#include "core/launcher.h"

#include <stddef.h>
#include <stdlib.h>

/* Processes of `srun --mpi=pmi2` have the variables of the second and third rows, and need an MPI with PMI. */
static const bgi_launcher launchers[] = {
    {"Open MPI's mpirun", "openmpi", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", false},
    {"MPICH's mpirun or PMI", "mpich", "PMI_SIZE", "PMI_RANK", false},
    {"srun", "openmpi", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", true},
};

/* Launchers that have only PMIx, such as `prun`, set a rank but no number of processes, which MPI reports. */
static const bgi_launcher pmix = {"PMIx", "openmpi", NULL, "PMIX_RANK", false};

uint64_t bgi_launcher_number(const char *variable)
{
    const char *text = getenv(variable);

    return text != NULL ? strtoull(text, NULL, 10) : 0;
}

/* If a process of one launcher runs another launcher, the outer launcher's variables may say 1 although the inner
 * launcher has started several processes. So a launcher counts only if its number of processes is above 1. */
const bgi_launcher *bgi_launcher_find(void)
{
    bool has_size = false;

    for (size_t i = 0; i < sizeof launchers / sizeof launchers[0]; i++) {
        if (bgi_launcher_number(launchers[i].size) > 1)
            return &launchers[i];
        has_size = has_size || getenv(launchers[i].size) != NULL;
    }
    return !has_size && getenv(pmix.rank) != NULL ? &pmix : NULL;
}

bool bgi_launcher_has_interface(void)
{
    return getenv(pmix.rank) != NULL || getenv(launchers[1].rank) != NULL;
}
