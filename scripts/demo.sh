#!/usr/bin/env bash
# The whole road once: tunes real layers, writes a C library of them, links a plain C program against it, checks every output
# against the formulas, and compares with OpenBLAS and oneDNN. `./run demo` builds what is needed and calls this.
#   --seconds N   for tuning (150)
#   --threads N   that a kernel may use (1)
#   --output DIR  what is made (out/demo)
#   --fresh       forget what earlier demos tuned
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
kumiko=${KUMIKO:-build/release/kumiko}
seconds=150 threads=1 out=out/demo fresh=
while [ $# -gt 0 ]; do
  case "$1" in
    --seconds) seconds=$2; shift 2 ;;
    --threads) threads=$2; shift 2 ;;
    --output) out=$2; shift 2 ;;
    --fresh) fresh=1; shift ;;
    *) sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 1 ;;
  esac
done
step() { printf '\n\033[1m%s\033[0m\n' "$*"; }
list=scripts/demo/kernels.json
begin=$SECONDS
mkdir -p "$out"
[ -n "$fresh" ] && rm -f "$out"/tuning.db*

step "1. Tune $(grep -c '"op"' $list) layers, $seconds seconds in all"
"$kumiko" tune $list --trials 2000 --budget "$seconds" --threads "$threads" --db "$out/tuning.db"

step "2. Write libdemo_kernels.a and demo_kernels.h, and what the formulas say"
"$kumiko" build $list -o "$out" --db "$out/tuning.db" --threads "$threads" --expected "$out/expected"

step "3. Link a C program against them, and run it"
compile=(cc -O2 -Wall scripts/demo/app.c -I"$out" "$out/libdemo_kernels.a" -lm -lpthread -o "$out/app")
echo "\$ ${compile[*]}"
"${compile[@]}"
"$out/app" "$out/expected"
cc -O1 "$out/demo_kernels_selftest.c" "$out/libdemo_kernels.a" -lm -lpthread -o "$out/selftest"
"$out/selftest"

step "4. Before and after tuning, and beside other libraries"
"$kumiko" bench $list --tuned "$out/tuning.db" --threads "$threads" --seconds 0.4 --json "$out/bench.json"

printf '\nAll of it took %d:%02d. The library is in %s.\n' $(((SECONDS - begin) / 60)) $(((SECONDS - begin) % 60)) "$out"
