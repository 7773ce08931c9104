# SPDX-License-Identifier: Apache-2.0
# Tests of programs of several processes.
include_guard()

# Some MPIs spin while they wait, which takes minutes where there are more processes than processors.
set(LODTENSOR_TIMEOUT_ON_RANKS 120 CACHE STRING "How many seconds a test of several processes may take")
mark_as_advanced(LODTENSOR_TIMEOUT_ON_RANKS)

# Open MPI starts more processes than there are processors, and any as root, only where it is told to; MPICH asks for no
# permission.
set(permissions OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
  PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
  ASAN_OPTIONS=leak_check_at_exit=0)

# lodtensor_test_on_ranks(<room> <target> [HOW <words>] [ENVIRONMENT <variable>] <number of ranks>...): a test for each
# number, in which mpirun runs the target.
function(lodtensor_test_on_ranks room target)
  add_dependencies(tests ${target})
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "HOW;ENVIRONMENT" "")
  foreach(size IN LISTS arg_UNPARSED_ARGUMENTS)
    set(name "${room}/${arg_HOW}on ${size} ranks")
    add_test(NAME "${name}" COMMAND "${MPIEXEC_EXECUTABLE}" ${MPIEXEC_NUMPROC_FLAG} ${size} ${MPIEXEC_PREFLAGS}
      $<TARGET_FILE:${target}> ${MPIEXEC_POSTFLAGS})
    # A rank that waits for ever keeps the others.
    set_tests_properties("${name}" PROPERTIES ENVIRONMENT "${permissions};${arg_ENVIRONMENT}" PROCESSORS ${size}
      TIMEOUT ${LODTENSOR_TIMEOUT_ON_RANKS})
  endforeach()
endfunction()
