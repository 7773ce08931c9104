# SPDX-License-Identifier: Apache-2.0
# Run after a test program is built: asks it for its cases, and writes the file by which CTest knows them. In place of
# doctest's own script, which takes a name apart at a semicolon or a bracket.
#   cmake -DPROGRAM=<path> -DROOM=<prefix of the names> -DCASES=<how many are one test> -DOUTPUT=<file>
#     [-DEMULATOR=<command>] -P discover.cmake

# Tests run side by side, with more threads than there are processors. Those that wait must leave theirs to the others:
# as OpenMP's threads wait otherwise, by looking again and again, some cases take a hundred times as long.
set(environment "ENVIRONMENT OMP_WAIT_POLICY=passive")

set(program "")
foreach(word IN LISTS EMULATOR PROGRAM)
  string(APPEND program " \"${word}\"")
endforeach()
execute_process(COMMAND ${EMULATOR} "${PROGRAM}" --list-test-cases --no-intro --no-version
  OUTPUT_VARIABLE listing COMMAND_ERROR_IS_FATAL ANY)
string(REGEX REPLACE "(\\[doctest\\]|====)[^\n]*\n" "" listing "${listing}")
if(CASES GREATER 1)
  string(REGEX MATCHALL "\n" ends "${listing}")
  list(LENGTH ends count)
  set(content "")
  foreach(first RANGE 1 ${count} ${CASES})
    math(EXPR last "${first} + ${CASES} - 1")
    string(APPEND content "add_test(\"${ROOM}/cases ${first} to ${last}\"${program} --first=${first} --last=${last})
set_tests_properties(\"${ROOM}/cases ${first} to ${last}\" PROPERTIES
  LABELS \"${ROOM}\" FAIL_REGULAR_EXPRESSION \"test cases: +0\" ${environment})\n")
  endforeach()
  file(WRITE "${OUTPUT}" "${content}")
  return()
endif()
string(REGEX REPLACE "([^\n]+)\n" "lodtensor_test([====[\\1]====])\n" listing "${listing}")

# A case that doctest does not find again by its name runs nothing, and would pass.
file(WRITE "${OUTPUT}" "function(lodtensor_test name)
  string(REPLACE \",\" \"\\\\,\" filter \"\${name}\")
  add_test(\"${ROOM}/\${name}\"${program} \"--test-case=\${filter}\")
  set_tests_properties(\"${ROOM}/\${name}\" PROPERTIES
    LABELS \"${ROOM}\" FAIL_REGULAR_EXPRESSION \"test cases: +0\" ${environment})
endfunction()
${listing}")
