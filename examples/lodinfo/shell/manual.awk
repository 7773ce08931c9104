# SPDX-License-Identifier: Apache-2.0
# The manual page, out of what `lodinfo --help` prints: awk -v version=0.1.0 -f manual.awk
# A line that begins with two spaces has a word to explain and, after two spaces or more, its explanation, which goes on
# in the lines below that are indented further. A line that ends with a colon is a heading.
function text(line) {
  gsub(/\\/, "\\e", line)
  gsub(/-/, "\\-", line)
  sub(/^[.']/, "\\\\\\&&", line)
  return line
}
BEGIN {
  print ".TH LODINFO 1 \"\" \"lodtensor " version "\""
  print ".SH NAME"
  print "lodinfo \\- shows what is in a file of LoD tensors"
  print ".SH SYNOPSIS"
}
/^usage: / || (synopsis && /^ /) {
  if (synopsis) print ".br"
  synopsis = 1
  sub(/^(usage:)? +/, "")
  print text($0)
  next
}
synopsis { synopsis = 0; print ".SH DESCRIPTION" }
/^[a-z ]+:$/ { sub(/:$/, ""); print ".SH " toupper($0); next }
/^  [^ ]/ {
  sub(/^ +/, "")
  at = match($0, /  +/)
  print ".TP"
  print "\\fB" text(substr($0, 1, RSTART - 1)) "\\fR"
  print text(substr($0, RSTART + RLENGTH))
  explained = 1
  next
}
/^ / && explained { sub(/^ +/, ""); print text($0); next }
/^$/ { explained = 0; print ".PP"; next }
{ print text($0) }
