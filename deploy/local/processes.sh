# For up.sh and down.sh: the processes that up.sh started, by the numbers it wrote down. Needs $run, the folder of those.

# alive NAME: its process runs. Not so when its number belongs to another program now, or to a dead process that nobody has
# waited for, which has no command line any more.
alive() {
  [ -f "$run/$1.pid" ] && grep -qs "baton-$1" "/proc/$(cat "$run/$1.pid")/cmdline"
}
