#!/usr/bin/env bash
# The whole workflow once: tunes real layers, writes a C library of them, links a plain C program
# against it, checks every output against the formulas, and compares with OpenBLAS and oneDNN.
# `./run demo` builds its prerequisites and calls this.
#   --seconds N   time for tuning (150)
#   --threads N   threads of a kernel (1)
#   --output DIR  folder for the results (out/demo)
#   --fresh       ignore schedules that earlier demos tuned
#   --phases TEXT earlier phases and their times, for the last lines
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
kumiko=${KUMIKO:-build/release/kumiko}
seconds=150 threads=1 out=out/demo fresh= phases=
while [ $# -gt 0 ]; do
  case "$1" in
    --seconds) seconds=$2; shift 2 ;;
    --threads) threads=$2; shift 2 ;;
    --output) out=$2; shift 2 ;;
    --fresh) fresh=1; shift ;;
    --phases) phases=$2; shift 2 ;;
    *) sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 1 ;;
  esac
done
step() { printf '\n\033[1m%s\033[0m\n' "$*"; }
# phase NAME: the time since the last phase was this one's.
last=$SECONDS
phase() {
  phases+="${phases:+, }$1 $((SECONDS - last)) s"
  last=$SECONDS
}
list=scripts/demo/kernels.json
mkdir -p "$out"
[ -n "$fresh" ] && rm -f "$out"/tuning.db*

step "1. Tune $(grep -c '"op"' $list) layers, $seconds seconds in all"
"$kumiko" tune $list --trials 2000 --budget "$seconds" --threads "$threads" --db "$out/tuning.db"

phase tuning
step "2. Write libdemo_kernels.a and demo_kernels.h, and what the formulas say"
"$kumiko" build $list -o "$out" --db "$out/tuning.db" --threads "$threads" --expected "$out/expected"

phase library
step "3. Link a C program against them, and run it"
compile=(cc -O2 -Wall scripts/demo/app.c -I"$out" "$out/libdemo_kernels.a" -lm -lpthread -o "$out/app")
echo "\$ ${compile[*]}"
"${compile[@]}"
"$out/app" "$out/expected"
cc -O1 "$out/demo_kernels_selftest.c" "$out/libdemo_kernels.a" -lm -lpthread -o "$out/selftest"
"$out/selftest"

phase program
step "4. Before and after tuning, and beside other libraries"
"$kumiko" bench $list --tuned "$out/tuning.db" --threads "$threads" --seconds 0.4 --json "$out/bench.json"

phase comparison
printf '\nThe library is in %s. Time: %s.\n' "$out" "$phases"
