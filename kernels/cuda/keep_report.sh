#!/bin/sh
# keep_report.sh FOLDER COMMAND...: runs nvcc and keeps what ptxas says of each kernel in FOLDER, by the object's name. Everything
# else that nvcc says is passed on.
folder=$1
shift
object=unknown previous=
for argument; do
  [ "$previous" != -o ] || object=$(basename "$argument")
  previous=$argument
done
mkdir -p "$folder"
report=$folder/$object.txt
"$@" 2>"$report"
status=$?
grep -v -e '^ptxas info' -e 'bytes stack frame' -e 'bytes spill' "$report" >&2
exit $status
