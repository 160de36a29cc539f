// The command, as a shell meets it.
#include "support/json.h"

#include <doctest/doctest.h>

#include <cstdio>
#include <filesystem>
#include <sys/wait.h>

using kumiko::Json;

namespace {

const std::string command = KUMIKO_BINARY_DIR "/kumiko";

struct Outcome {
    int status;
    std::string out, err;
};

std::string read(const std::string &path) {
    std::string all;
    if (FILE *f = fopen(path.c_str(), "r")) {
        char part[4096];
        while (const size_t n = fread(part, 1, sizeof part, f)) all.append(part, n);
        fclose(f);
    }
    return all;
}

std::string scratch() {
    const auto path = std::filesystem::path(KUMIKO_BINARY_DIR) / "test_cli.scratch";
    std::filesystem::create_directories(path);
    return path.string();
}

Outcome run(const std::string &arguments) {
    const std::string out = scratch() + "/out", err = scratch() + "/err";
    const int status = std::system(
        ("cd " + scratch() + " && " + command + " " + arguments + " >" + out + " 2>" + err + " </dev/null").c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read(out), read(err)};
}

Json json_of(const Outcome &o) {
    REQUIRE_MESSAGE(o.status == 0, o.err);
    return Json::parse(o.out);
}

bool has(const std::string &text, const std::string &part) { return text.find(part) != std::string::npos; }

} // namespace

TEST_CASE("help and lists") {
    REQUIRE_MESSAGE(std::filesystem::exists(command), command << " is not built");
    for (const char *sub : {"", "ops", "show", "run", "tune", "best", "db", "build", "bench", "machine", "sim"}) {
        const Outcome o = run(std::string(sub) + " --help");
        CHECK(o.status == 0);
        CHECK_MESSAGE(has(o.out, "Examples:"), sub);
        CHECK(o.err.empty());
    }
    CHECK(has(run("ops").out, "conv2d"));
    CHECK(has(run("ops matmul").out, "transpose_b"));
    CHECK(json_of(run("ops --json -")).size() > 10);
    CHECK(json_of(run("machine --json -"))["machine"].is_object());
    CHECK(has(run("machine --list").out, "x86-64-avx2"));
}

TEST_CASE("show prints each stage") {
    const std::string op = "show matmul --shape m=16,n=16,k=16 --stage ";
    CHECK(has(run(op + "formula").out, "matmul"));
    CHECK(run(op + "schedule").status == 0);
    CHECK(has(run(op + "nest").out, "for "));
    CHECK(has(run(op + "ir").out, "C["));
    CHECK(has(run(op + "llvm").out, "define"));
    CHECK(has(run(op + "asm").out, "matmul:"));
    CHECK(has(run(op + "asm --target aarch64").out, "fmla"));
    CHECK(json_of(run(op + "ir --json -"))["passes"].size() > 3);
}

TEST_CASE("run checks and times") {
    const Json r = json_of(run("run matmul --shape m=20,n=20,k=20 --seconds 0.01 --json -"));
    CHECK(r["checked"] == "equal bits");
    CHECK(r["seconds"].get<double>() > 0);
    CHECK(json_of(run("run softmax --shape m=M,n=20 --sizes M=3 --seconds 0.01 --json -"))["checked"] ==
          "within bounds");
    const Outcome text = run("run gelu --shape n=100 --type f64 --seconds 0.01");
    CHECK(text.status == 0);
    CHECK(has(text.out, "a call"));
}

TEST_CASE("bench reports ratios, or says what is missing") {
    const Json rows = json_of(run("bench gemm-f32 --shape m=64,n=64,k=64 --seconds 0.01 --quiet --json -"));
    REQUIRE(rows.size() == 1);
    for (const char *key :
         {"suite", "case", "threads", "ours", "unit", "peers", "best_peer", "ratio", "peak", "of_peak", "spread"}) {
        CHECK_MESSAGE(rows[0].contains(key), key);
    }
    CHECK(rows[0]["ours"].get<double>() > 0);
    CHECK(run("bench rows --shape op=softmax,m=8,n=64 --seconds 0.01 --quiet").status == 0);
}

TEST_CASE("tune, best, db and build work together") {
    std::filesystem::remove(scratch() + "/t.db");
    const Outcome tuned = run("tune matmul --shape m=32,n=32,k=32 --trials 4 --db t.db --quiet --json tuned.json");
    REQUIRE_MESSAGE(tuned.status == 0, tuned.err);
    CHECK(Json::parse(read(scratch() + "/tuned.json")).size() == 1);
    CHECK(json_of(run("db t.db --json -")).size() == 1);
    CHECK(run("best matmul --shape m=32,n=32,k=32 --db t.db").status == 0);
    CHECK(run("best matmul --shape m=32,n=32,k=32 --db t.db --as json").status == 0);
    if (FILE *f = fopen((scratch() + "/k.json").c_str(), "w")) {
        fputs(
            R"({"name": "tk", "tuned": "t.db", "kernels": [{"name": "mm", "op": "matmul", "parameters": {"m": 32, "n": 32, "k": 32}}]})",
            f);
        fclose(f);
    }
    const Json built = json_of(run("build k.json -o lib --quiet --expected lib/expected --json -"));
    CHECK(built["manifest"]["kernels"][0]["schedule"]["origin"] == "tuned");
    CHECK(built["manifest"]["kernels"][0]["measured"]["seconds"].get<double>() > 0);
    CHECK(std::filesystem::file_size(scratch() + "/lib/expected/mm.C.bin") == 32 * 32 * 4);
}

TEST_CASE("bad input ends with status 1 and a line on standard error") {
    const auto bad = [](const std::string &arguments, const std::string &part) {
        const Outcome o = run(arguments);
        INFO(arguments, ": ", o.err);
        CHECK(o.status == 1);
        CHECK(o.out.empty());
        CHECK(has(o.err, "kumiko: "));
        CHECK(has(o.err, part));
    };
    bad("", "subcommand");
    bad("shwo", "there is no command \"shwo\" (did you mean 'show'?)");
    bad("show matmull --shape m=1", "did you mean 'matmul'?");
    bad("show matmul --shape m=1,n=1", "needs the parameter \"k\"");
    bad("show matmul --shape m=1,n=1,k=x-", "parameter \"k\"");
    bad("show matmul --shape 512", "expected name=value");
    bad("show matmul --shape m=4,n=4,k=4 --stage asmm", "stage");
    bad("show matmul --shape m=4,n=4,k=4 --target x87", "x87");
    bad("show matmul --shape m=4,n=4,k=4 --schedule no.json", "no.json");
    bad("show matmul --shape m=4,n=4,k=4 --type f31", "f31");
    bad("run matmul --shape m=M,n=4,k=4", "size M has no value");
    bad("run matmul --shape m=4,n=4,k=4 --sizes M=4", "no size \"M\"");
    bad("run matmul --shape m=4,n=4,k=4 --tuned no.db", "no.db");
    bad("bench gemm-f23", "did you mean 'gemm-f32'?");
    bad("bench rows --shape m=4,n=4", "several ops");
    bad("build no.json", "no.json");
    bad("best matmul --shape m=4,n=4,k=4 --db no.db", "no.db");
    const Outcome unwritable = run("machine --json /nonexistent/r.json"); // the report itself is printed before
    CHECK(unwritable.status == 1);
    CHECK(has(unwritable.err, "cannot write /nonexistent/r.json"));
}

TEST_CASE("sim runs a program, loads and prints memory, and says where a text goes wrong") {
    const auto write = [](const std::string &name, const std::string &text) {
        FILE *f = fopen((scratch() + "/" + name).c_str(), "wb");
        fwrite(text.data(), 1, text.size(), f);
        fclose(f);
    };
    std::string data(512, '\0');
    data[0] = 7;
    write("x.bin", data);
    write("copy.kasm", "mv.bcast dram[0] -> l2bm[0], size 1, tag 0 | note \"load\"\nwait 0\nnop\nnop\n"
                       "mv.gather l2bm[0] -> dram[64], size 1, tag 1\nwait 1 | end\n");
    const Outcome o =
        run("sim copy.kasm --load dram:0[0]=x.bin --dump dram:0[64..65] --report r.html --trace t.json --json r.json");
    REQUIRE_MESSAGE(o.status == 0, o.err);
    CHECK(has(o.out, "0000000000000007"));
    CHECK(has(o.out, "idle: waiting for loads"));
    CHECK(has(read(scratch() + "/r.html"), "<svg"));
    CHECK(Json::parse(read(scratch() + "/t.json"))["traceEvents"].size() > 5);
    CHECK(Json::parse(read(scratch() + "/r.json"))["cycles"] > 300);
    CHECK(run("sim copy.kasm --assemble copy.bin").status == 0);
    CHECK(has(run("sim copy.bin --disassemble").out, "note \"load\""));
    const Outcome undefined = run("sim copy.kasm");
    CHECK(undefined.status == 1);
    CHECK(has(undefined.err, "reads DRAM[0] of group 0, which was never written"));
    write("wrong.kasm", "nop\nadd.i32 t, lm9[0]\n");
    CHECK(has(run("sim wrong.kasm").err, "wrong.kasm:2:12: there is no operand 'lm9'"));
    CHECK(has(run("sim copy.kasm --machine smal").err, "there is no machine 'smal' (did you mean 'small'?)"));
    CHECK(has(run("sim copy.kasm --zero --dump lm9:0[0]").err, "there is no memory 'lm9'"));
    CHECK(has(run("sim copy.kasm --load dram:0=x").err, "names no part of a memory"));
}
