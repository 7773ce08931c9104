# SPDX-License-Identifier: Apache-2.0
# LODTENSOR_PYTHON: the first python3 on the path that has NumPy, for the example module and for tests beside NumPy. Name
# another one (-DLODTENSOR_PYTHON=<path>) that has pyarrow as well, and Arrow is tested beside pyarrow.
function(lodtensor_has_numpy result program)
  execute_process(COMMAND "${program}" -c "import numpy" RESULT_VARIABLE status OUTPUT_QUIET ERROR_QUIET)
  if(NOT status EQUAL 0)
    set(${result} FALSE PARENT_SCOPE)
  endif()
endfunction()
find_program(LODTENSOR_PYTHON NAMES python3 VALIDATOR lodtensor_has_numpy DOC "A Python that has NumPy")
mark_as_advanced(LODTENSOR_PYTHON)
