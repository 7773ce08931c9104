# SPDX-License-Identifier: Apache-2.0
# What Doxygen reads in place of a header. The headers are written for people who read them; Doxygen needs more words:
#   - LOD_INTERFACE and LOD_TARGET, inline namespaces that nobody writes, are gone, and so is LOD_TAGGED.
#   - Functions that follow a documented one without an empty line between share its comment: overloads of one name say
#     so, and f after f_into gets the comment once more. Functions of other names get nothing, so that Doxygen
#     complains.
#   - The objects that an operation is, operation::Call<op::f> and CallInto<op::f>, are shown as the functions that they
#     are called as, with the parameters that the body of the declaration has. So are forms that take the tag first.
#   - A function infer_f says that it describes what f gives.
#   - A data member without a comment says all there is to say by its name: it gets an empty one.
#   - The texts of operations' tags, which are for bindings, are left out, and so are macros that include kernels.
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

# The parameters of the bodies of declared operations, by their tags: runs[tag]. A declaration that has none of its own
# has that of the template which it derives from.
function find_bodies(i, type, tag, base, inherited, head) {
  for (i = 1; i <= NR; ++i) {
    if (lines[i] ~ /^struct /) {
      type = lines[i]
      sub(/^struct /, "", type)
      base = type
      sub(/( :| {).*/, "", type)
      if (type ~ /^Declared</) {
        tag = type
        gsub(/Declared<op::|>/, "", tag)
        sub(/^[^:]*(::[^:]*)* : /, "", base)
        sub(/[^A-Za-z].*/, "", base)
        inherited[tag] = base
      }
    } else if (lines[i] ~ /^  static void run\(/) {
      head = head_of(i)
      sub(/^[^(]*\(/, "", head)
      sub(/\) *{$/, "", head)
      runs[type] = head
    }
  }
  for (tag in inherited) {
    runs[tag] = ("Declared<op::" tag ">") in runs ? runs["Declared<op::" tag ">"] : runs[inherited[tag]]
  }
}

# The form `name` of an operation: with an executor or without, with the options or without, with outputs or by value.
function form(name, tag, executor, options, outputs, i, n, depth, c, parts, part, type, first, heads, parameters) {
  n = 0
  depth = 0
  parts[0] = ""
  for (i = 1; i <= length(runs[tag]); ++i) {
    c = substr(runs[tag], i, 1)
    if (c == "<") ++depth
    if (c == ">") --depth
    if (c == "," && depth == 0) parts[++n] = ""
    else parts[n] = parts[n] c
  }
  heads = executor ? "Executor E" : ""
  parameters = executor ? "const E& executor" : ""
  for (i = 1; i <= n; ++i) {
    part = parts[i]
    gsub(/^ +| +$/, "", part)
    type = part
    sub(/.*[ &]/, "", part)
    if (type ~ /^const Input</) {
      if (first == "") first = toupper(part)
      heads = heads (heads ? ", " : "") "LoDTensorLike " toupper(part)
      type = "const " toupper(part) "& " part
    } else if (type ~ /^std::span<const (Input|SelectedRows)</) {
      heads = heads (heads ? ", " : "") "class " toupper(part)
      first = type ~ /Input/ ? toupper(part) : ""
      type = "const " toupper(part) "& " part
    } else if (type ~ /^const To</) {
      if (!outputs) continue
      heads = heads ", class " toupper(part)
      type = toupper(part) "&& " part
    } else if (type !~ /^const / && type ~ /& /) {
      if (!outputs) continue
    } else if (type ~ / options$/) {
      if (!options) continue
      if (!outputs) type = type " = {}"
    }
    gsub(/<T, typename E::device>/, first == "" ? "<T, Device>" : "<value_type_t<" first ">, device_t<" first ">>", type)
    parameters = parameters (parameters ? ", " : "") type
  }
  if (first == "") heads = heads (heads ? ", " : "") "class T, class Device"
  return "template <" heads "> " (outputs ? "void " : "[[nodiscard]] auto ") name "(" parameters ");"
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
  if (/^  static constexpr Text text\{/) in_text = 1
  lines[NR] = in_text || /^# *define LOD_(HEADER|KERNELS)\(/ ? "" : $0
  if (/};$/) in_text = 0
}

END {
  scope[0] = "namespace"
  find_bodies()
  for (i = 1; i <= NR; ++i) {
    line = lines[i]
    sub(/::inline LOD_INTERFACE/, "", line)
    sub(/::inline LOD_TARGET/, "", line)
    if (match(line, /[a-z0-9_]+\(op::[a-z0-9_]+, /)) {
      tag = substr(line, RSTART, RLENGTH)
      name = tag ~ /_into\(/ ? "_into(" : "("
      gsub(/.*::|, $/, "", tag)
      line = lines[i] = substr(line, 1, RSTART - 1) tag name substr(line, RSTART + RLENGTH)
    }
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
      } else if (line ~ /^inline constexpr operation::Call(Into)?<op::/) {
        tag = name = line
        gsub(/.*<op::|>.*/, "", tag)
        gsub(/.*> |{};/, "", name)
        other = "/// The same with other arguments.\n"
        if (line ~ /CallInto</) {
          if (!documented) printf "%s", shared[tag]
          line = form(name, tag, 1, 1, 1)
          if (runs[tag] ~ / options,/) line = line "\n" other form(name, tag, 1, 0, 1)
        } else {
          shared[name] = comment
          line = form(name, tag, 1, 1, 0) "\n" other form(name, tag, 0, 1, 0)
        }
        code = ""
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
