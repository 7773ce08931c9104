# SPDX-License-Identifier: Apache-2.0
# Run after a test program is built: asks it for its cases, and writes the file by which CTest knows them. In place of
# doctest's own script, which takes a name apart at a semicolon or a bracket.
#   cmake -DPROGRAM=<path> -DROOM=<prefix of the names> -DOUTPUT=<file> -P discover.cmake
execute_process(COMMAND "${PROGRAM}" --list-test-cases --no-intro --no-version
  OUTPUT_VARIABLE listing COMMAND_ERROR_IS_FATAL ANY)
string(REGEX REPLACE "(\\[doctest\\]|====)[^\n]*\n" "" listing "${listing}")
string(REGEX REPLACE "([^\n]+)\n" "lodtensor_test([====[\\1]====])\n" listing "${listing}")

# A case that doctest does not find again by its name runs nothing, and would pass.
file(WRITE "${OUTPUT}" "function(lodtensor_test name)
  string(REPLACE \",\" \"\\\\,\" filter \"\${name}\")
  add_test(\"${ROOM}/\${name}\" \"${PROGRAM}\" \"--test-case=\${filter}\")
  set_tests_properties(\"${ROOM}/\${name}\" PROPERTIES
    LABELS \"${ROOM}\" FAIL_REGULAR_EXPRESSION \"test cases: +0\")
endfunction()
${listing}")
