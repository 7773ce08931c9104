# SPDX-License-Identifier: Apache-2.0
# What Doxygen reads in place of a header. The headers are written for people who read them; Doxygen needs more words:
#   - LOD_INTERFACE and LOD_TARGET, inline namespaces that nobody writes, are gone, and so is LOD_TAGGED.
#   - Functions that follow a documented one without an empty line between share its comment: overloads of one name say
#     so, and f after f_into gets the comment once more. Functions of other names get nothing, so that Doxygen
#     complains.
#   - A function infer_f says that it describes what f gives.
#   - A data member without a comment says all there is to say by its name: it gets an empty one.
#   - Undocumented functions that are defaulted or deleted are left out.
#   - A comment in a class that begins with @{ is the heading of its members, too.
#   - Documented friends are members, or Doxygen would link to comments that it does not show.
#   - The group of a file (@ingroup below its @file) is that of all it declares in namespace lod.

# The line without comments, strings and characters.
function code_of(line) {
  gsub(/"([^"\\]|\\.)*"/, "\"\"", line)
  gsub(/'([^'\\]|\\.)'/, "0", line)
  sub(/\/\/.*/, "", line)
  return line
}

# The head of the declaration that begins on line `first`: up to its body, its initialiser or its end.
function head_of(first, i, text) {
  text = ""
  for (i = first; i <= NR && text !~ /[;{]/; ++i) text = text " " code_of(lines[i])
  gsub(/\[\[[^]]*\]\]/, "", text)
  return text
}

# The name of the function that a head declares; empty where it declares something else.
function function_name(head, i, depth, c, plain) {
  plain = ""
  depth = 0
  for (i = 1; i <= length(head); ++i) {  # without template arguments, up to the parameters
    c = substr(head, i, 1)
    if (c == "(" && depth == 0 && plain !~ /operator *$|requires *$/) break
    if (c == "<" && plain !~ /operator *$/) ++depth
    if (depth == 0) plain = plain c
    if (c == ">" && depth > 0) --depth
  }
  if (i > length(head) || plain ~ /^ *(using|struct|class|enum|static_assert)|[;{]|[^=!<>+*\/-]= /) return ""
  if (!match(plain, /(operator.*|~?[A-Za-z_0-9]+) *$/)) return ""
  return substr(plain, RSTART, RLENGTH)
}

# The comment from line `first` on as the name of a group of members.
function heading(first, i, text) {
  for (i = first; lines[i] ~ /^ *\/\/\/ /; ++i) text = text substr(lines[i], index(lines[i], "///") + 3)
  return "/// @name" text
}

# Follows braces and parentheses through `code`. scope[depth] is what a brace has opened.
function follow(i, c) {
  for (i = 1; i <= length(code); ++i) {
    c = substr(code, i, 1)
    if (c == "(") ++parentheses
    if (c == ")") --parentheses
    if (c == "{") {
      scope[++depth] = parentheses > 0 ? "body" \
          : statement ~ /(^| )namespace / ? "namespace" \
          : statement ~ /^ *(template *<.*> *(requires.*)?)?(friend )?(struct|class|union) / ? "type" : "body"
      is_private[depth] = statement ~ /(^|> *)class /
      statement = ""
    } else if (c == "}") {
      --depth
      if (parentheses == 0) statement = ""
    } else if (c == ";" && parentheses == 0) {
      statement = ""
    } else if (c != " " || statement != "") {
      statement = statement c
    }
  }
  if (statement != "") statement = statement " "
}

{
  gsub(/LOD_TAGGED(_COPIES\([A-Za-z]+\);)? ?/, "")
  lines[NR] = $0
}

END {
  scope[0] = "namespace"
  for (i = 1; i <= NR; ++i) {
    line = lines[i]
    sub(/::inline LOD_INTERFACE/, "", line)
    sub(/::inline LOD_TARGET/, "", line)
    if (line ~ /^\/\/\/ @ingroup /) {
      group = line
      sub(/.* /, "", group)
    }
    if (group != "" && line == "namespace lod {") line = line "  /// @addtogroup " group "\n/// @{"
    if (group != "" && line == "}  // namespace lod") print "/// @}"
    code = code_of(lines[i])
    if (line ~ /^ *\/\/\/( |$)/) {
      comment = (documented ? comment : "") line "\n"
      if (line ~ /@[{]$/) in_members = 1
      if (line ~ /@}$/) in_members = 0
      documented = line !~ /@}$/
      if (line ~ /^ +\/\/\/ @[{]$/) line = heading(i + 1) "\n" line
    } else if (statement == "" && parentheses == 0 && scope[depth] != "body") {
      if (line ~ /^ *(public|private|protected):/) {
        is_private[depth] = line !~ /public/
        statement = code = ""
        split("", shared)
      } else if (code ~ /^ *#?$/ || line ~ /^ *#/) {
        split("", shared)  # the comments that the next function may share, by the names that have them
        if (line ~ /^ *#/) code = ""
      } else if (line !~ /^ *}/ && !is_private[depth]) {
        head = head_of(i)
        name = function_name(head)
        indent = line
        sub(/[^ ].*/, "", indent)
        if (documented || in_members) sub(/^ *friend /, indent, line)
        if (documented) {
          if (name != "" && comment !~ /@[{]/ && !(name in shared)) shared[name] = comment
        } else if (name != "" && name in shared) {
          print indent "/// The same with other arguments."
        } else if (name ~ /^infer_/) {
          print indent "/// What `" substr(name, 7) "` gives, described: see <lod/infer.hpp>."
        } else if (name "_into" in shared) {
          shared[name] = shared[name "_into"]
          printf "%s", shared[name]
        } else if (head ~ /= *(delete|default) *;/) {
          line = ""
        } else if (scope[depth] == "type" && name == "" && line !~ /\/\/\/</ &&
                   head !~ /^ *(using|template|struct|class|enum|union|friend|static_assert) /) {
          line = line "  ///< &nbsp;"
        }
      }
      documented = 0
    } else {
      documented = 0
    }
    follow()
    print line
  }
  if (depth != 0 || parentheses != 0) print "/// @error " FILENAME ": the filter lost count of its braces"
}
