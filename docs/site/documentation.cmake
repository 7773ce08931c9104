# SPDX-License-Identifier: Apache-2.0
# `cmake --build <folder> --target documentation`: the site, into <folder>/documentation. A warning is an error.
find_package(Doxygen QUIET)
if(NOT DOXYGEN_FOUND)
  message(STATUS "Target 'documentation' left out: Doxygen was not found")
  return()
endif()

# What is not listed here is as Doxygen has it.
set(DOXYGEN_PROJECT_NUMBER "${PROJECT_VERSION}")
set(DOXYGEN_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/documentation")
set(DOXYGEN_HTML_OUTPUT .)
set(DOXYGEN_STRIP_FROM_PATH "${PROJECT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}/include" "${PROJECT_BINARY_DIR}")
set(DOXYGEN_STRIP_FROM_INC_PATH "${PROJECT_SOURCE_DIR}/include")
set(DOXYGEN_FILTER_PATTERNS "\"*.hpp=awk -f ${CMAKE_CURRENT_LIST_DIR}/filter.awk\"")
set(DOXYGEN_VERBATIM_VARS DOXYGEN_FILTER_PATTERNS)
# What is public, and nothing else.
set(DOXYGEN_EXCLUDE_SYMBOLS lod::detail "lod::detail::*" lod::operation "lod::operation::*" lod::kernel "lod::kernel::*"
  lod::operators_of_programs "lod::operators_of_programs::*" lod::operators_by_dnnl
  "lod::operators_by_dnnl::*" lod::operators_by_blas
  "lod::operators_by_blas::*" lod::between_ranks "lod::between_ranks::*" lod::between_gpus "lod::between_gpus::*"
  lod::Interpreter lod::PreparedBlock lod::RunningProgram
  lod::infer "lod::infer::*" "lod::proto::detail*" "lod::proto::Schema*" "lod::proto::EnumSchema*"
  "lod::paddle::detail*" "std::*")
set(DOXYGEN_HIDE_FRIEND_COMPOUNDS YES)
set(DOXYGEN_EXCLUDE "${PROJECT_SOURCE_DIR}/include/lod/core/target.hpp")
set(DOXYGEN_USE_MDFILE_AS_MAINPAGE "${PROJECT_SOURCE_DIR}/README.md")
# Comments are written for readers of the source: the first sentence is the brief one, and what a return value or a
# parameter is stands in the text.
set(DOXYGEN_JAVADOC_AUTOBRIEF YES)
set(DOXYGEN_WARN_AS_ERROR FAIL_ON_WARNINGS)
set(DOXYGEN_QUIET YES)
set(DOXYGEN_DISTRIBUTE_GROUP_DOC YES)
set(DOXYGEN_BUILTIN_STL_SUPPORT YES)
set(DOXYGEN_PREDEFINED LOD_HOST_DEVICE= LOD_LIFETIMEBOUND=)
set(DOXYGEN_MACRO_EXPANSION YES)
# To which README.md links.
set(DOXYGEN_HTML_EXTRA_FILES "${PROJECT_SOURCE_DIR}/LICENSE" "${PROJECT_SOURCE_DIR}/docs/CITATION.cff")
set(DOXYGEN_HAVE_DOT NO)
set(DOXYGEN_GENERATE_TREEVIEW YES)

file(GLOB guide CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/docs/guide/*.md")
file(GLOB reports CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/benchmarks/results/*.md")  # to which pages link
set(pages README.md docs/overview.md docs/speed.md ${guide} examples/nested_rnn/README.md examples/tagger/README.md
  examples/transformer/README.md examples/sharded_table/README.md examples/lac/README.md examples/python/README.md
  CONTRIBUTING.md .github/SECURITY.md .github/CODE_OF_CONDUCT.md CHANGELOG.md ${reports})

# A page that the library writes itself: which operation takes which types.
if(TARGET print_type_table)
  set(types "${PROJECT_BINARY_DIR}/types.md")
  add_custom_command(OUTPUT "${types}"
    COMMAND ${CMAKE_COMMAND} -E echo "# Types" > "${types}"
    COMMAND ${CMAKE_COMMAND} -E echo "" >> "${types}"
    COMMAND print_type_table >> "${types}"
    DEPENDS print_type_table VERBATIM)
  list(APPEND pages "${types}")
endif()

doxygen_add_docs(documentation ${pages} "${CMAKE_CURRENT_LIST_DIR}/groups.dox" include/lod)
if(TARGET print_type_table)
  add_custom_target(type_table DEPENDS "${types}")
  add_dependencies(documentation type_table)
endif()
