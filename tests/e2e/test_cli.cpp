// The kumiko command, run from a shell. One file, because all cases share the folder and helpers.
#include "support/json.h"

#include <doctest/doctest.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sys/wait.h>
#include <unistd.h>

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

// `name`: of the files for its output.
Outcome run(const std::string &arguments, const std::string &name = "") {
    const std::string out = scratch() + "/out" + name, err = scratch() + "/err" + name;
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
    for (const char *sub :
         {"", "ops", "show", "run", "tune", "best", "db", "build", "bench", "machine", "docs", "sim"}) {
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

TEST_CASE("show says why") {
    const std::string text = run("show softmax_along --shape shape=32,100,axis=0 --why").out;
    CHECK(has(text, "schedule: default, by rules for each stage"));
    CHECK(has(text, "\nshare"));
    CHECK(has(text, "e.at = root"));
    CHECK(has(text, "model +"));
    const std::string other = run("show softmax_along --shape shape=32,100,axis=0 --parameters e.at=inline").out;
    CHECK(has(other, "inline e\n"));
    CHECK(!has(run("show softmax_along --shape shape=32,100,axis=0").out, "inline e\n"));
    CHECK(has(run("show matmul --shape m=64,n=64,k=64 --why").out, "schedule: default, the library's matmul"));
    const Json report = json_of(run("show gelu --shape n=1000 --why --json -"));
    CHECK(report.at("stages").size() == 1);
    CHECK(!report.at("alternatives").empty());
    CHECK(has(run("show gelu --shape n=1000 --why --stage asm").err, "--why takes the place of --stage asm"));
}

TEST_CASE("show prints each stage") {
    const std::string op = "show matmul --shape m=16,n=16,k=16 --stage ";
    CHECK(has(run(op + "formula").out, "matmul"));
    CHECK(run(op + "schedule").status == 0);
    CHECK(has(run(op + "nest").out, "for "));
    CHECK(has(run(op + "ir").out, "C["));
    CHECK(has(run(op + "llvm").out, "define"));
    CHECK(has(run(op + "asm").out, "matmul:"));
    CHECK(has(run("show exp --shape n=100 --stage asm").out, "exp_kernel:")); // exp is C's
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

TEST_CASE("a limit makes this processor a lesser one") {
    const Json full = json_of(run("machine --json -"))["machine"];
    if (full["architecture"] != "x86-64") return;
    const Json less = json_of(run("--limit x86-64-sse4.2 machine --json -"))["machine"];
    CHECK(less["vector"]["bits"] == 128);
    for (const Json &f : less["features"]) CHECK(f.get<std::string>().find("avx") == std::string::npos);
    const Outcome code = run("--limit x86-64-sse4.2 show matmul --shape m=16,n=16,k=16 --stage asm");
    REQUIRE_MESSAGE(code.status == 0, code.err);
    CHECK(has(code.out, "%xmm"));
    CHECK_FALSE(has(code.out, "%ymm"));
    CHECK(json_of(run("--limit x86-64-sse4.2 run matmul --shape m=20,n=20,k=20 --seconds 0.01 --json -"))["checked"] ==
          "equal bits");
    const Outcome other = run("--limit aarch64 machine");
    CHECK(other.status == 1);
    CHECK(has(other.err,
              "features cannot be limited to aarch64: that level is of aarch64, and this processor is x86_64"));
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
    const Json outside = json_of(run("bench outside --shape op=relu,n=64 --seconds 0.001 --quiet --json -"));
    REQUIRE(outside.size() == 1);
    CHECK(outside[0].at("ratio").get<double>() > 0);
    const Json own =
        json_of(run("bench own-ops --only heat_twice --shape H=360 --no-peers --seconds 0.001 --quiet --json -"));
    REQUIRE(own.size() == 1);
    CHECK(own[0].at("best_known").get<double>() > 0);
    CHECK(run("bench gemm-small --no-peers --seconds 0.001 --quiet --page speed.md").status == 0);
    CHECK(has(read(scratch() + "/speed.md"), "| 5x5x5 |"));
    CHECK(has(read(scratch() + "/speed/gemm-small.svg"), "5x5x5"));
    const Outcome one = run("bench gemm-small --shape m=5,n=5,k=5 --quiet --page speed.md");
    CHECK(one.status == 1);
    CHECK(has(one.err, "--page shows whole suites"));
    const Outcome tune = run("bench tune --only squared --trials 2 --few 1 --random 0 --quiet --json tune.json");
    REQUIRE_MESSAGE(tune.status == 0, tune.err);
    CHECK(has(tune.out, "without a schedule of their own 1, "));
    const Json row = Json::parse(read(scratch() + "/tune.json"))[0];
    CHECK(row["nest_seconds"].get<double>() > row["tuned_seconds"].get<double>());
    CHECK(row["times_as_fast_as_nest"].get<double>() ==
          doctest::Approx(row["nest_seconds"].get<double>() / row["tuned_seconds"].get<double>()));
}

TEST_CASE("tune, best, db and build work together") {
    std::filesystem::remove(scratch() + "/t.db");
    const Outcome tuned = run("tune matmul --shape m=32,n=32,k=32 --trials 4 --db t.db --quiet --json tuned.json");
    REQUIRE_MESSAGE(tuned.status == 0, tuned.err);
    CHECK(Json::parse(read(scratch() + "/tuned.json")).size() == 1);
    CHECK(json_of(run("db t.db --json -")).size() == 1);
    CHECK(json_of(run("db --db t.db --json -")).size() == 1);
    const Json stats = json_of(run("db stats t.db --json -"));
    CHECK(stats["version"] == 2);
    CHECK(stats["trials"] == 4);
    CHECK(has(run("db stats t.db").out, "4 of them trials"));
    CHECK(run("db export t.db --out t.jsonl").status == 0);
    const std::string lines = run("db export t.db").out;
    CHECK(read(scratch() + "/t.jsonl") == lines);
    for (const char *copy : {"u.db", "v.db"}) std::filesystem::remove(scratch() + "/" + copy);
    CHECK(json_of(run("db import u.db t.jsonl --json -"))["added"] == stats["records"]);
    CHECK(run("db export u.db").out == lines);
    CHECK(json_of(run("db merge v.db u.db t.jsonl t.db --json -"))["same"] == 2 * stats["records"].get<int>());
    CHECK(run("db export v.db").out == lines);
    CHECK(json_of(run("db prune v.db --keep 1 --failed --dry-run --json -"))["left"] == 1);
    CHECK(json_of(run("db prune v.db --keep 1 --failed --json -"))["left"] == 1);
    CHECK(run("best matmul --shape m=32,n=32,k=32 --db v.db --as json").out ==
          run("best matmul --shape m=32,n=32,k=32 --db t.db --as json").out);
    CHECK(run("db report t.db --out all.html").status == 0);
    CHECK(has(read(scratch() + "/all.html"), "Tuning of matmul"));
    CHECK(!has(read(scratch() + "/all.html"), "GFLOP/s"));
    CHECK(run("db report t.db matmul --shape m=32,n=32,k=32 --out one.html").status == 0);
    CHECK(has(read(scratch() + "/one.html"), "GFLOP/s"));
    CHECK(run("tune matmul --shape m=32,n=32,k=32 --trials 4 --db t.db --quiet --report two.html").status == 0);
    CHECK(read(scratch() + "/two.html") == read(scratch() + "/one.html"));
    // The same records, as if another machine had made them.
    const std::string id = stats["machines"].begin().key();
    std::string other = lines;
    for (size_t at = 0; (at = other.find("\"machine\":\"" + id, at)) != std::string::npos; at++)
        other.replace(at + 11, id.size(), "elsewhere-12");
    std::filesystem::remove(scratch() + "/w.db");
    std::ofstream(scratch() + "/w.jsonl") << other;
    CHECK(run("db import w.db w.jsonl").status == 0);
    CHECK(run("best matmul --shape m=32,n=32,k=32 --db w.db").status == 1);
    const Outcome hint = run("best matmul --shape m=32,n=32,k=32 --db w.db --any-machine");
    CHECK(has(hint.out, "on elsewhere-12, another machine; not measured on this one"));
    CHECK(json_of(run("best matmul --shape m=32,n=32,k=32 --db w.db --any-machine --json -"))["machine"] ==
          "elsewhere-12");
    CHECK(json_of(run("best matmul --shape m=32,n=32,k=32 --db t.db --any-machine --json -"))["measured_here"] == true);
    CHECK(run("best matmul --shape m=32,n=32,k=32 --db t.db").status == 0);
    CHECK(has(run("best matmul --shape m=M,n=32,k=32 --type f64 --sizes M=5 --threads 2 --db t.db").err,
              "kumiko tune matmul --shape m=M,n=32,k=32 --type f64 --sizes M=5 --db t.db --threads 2\n"));
    CHECK(run("best matmul --shape m=32,n=32,k=32 --db t.db --as json").status == 0);
    if (FILE *f = fopen((scratch() + "/k.json").c_str(), "w")) {
        fputs(
            R"({"name": "tk", "tuned": "t.db", "kernels": [{"name": "mm", "op": "matmul", "parameters": {"m": 32, "n": 32, "k": 32}}]})",
            f);
        fclose(f);
    }
    if (FILE *f = fopen((scratch() + "/open.json").c_str(), "w")) {
        fputs(R"({"name": "o", "kernels": [{"name": "some", "op": "gelu", "parameters": {"n": 64}},
                                           {"name": "any", "op": "gelu", "parameters": {"n": "N"}}]})",
              f);
        fclose(f);
    }
    const Outcome open = run("tune open.json --trials 1 --db t.db --quiet");
    CHECK(open.status == 0);
    CHECK(has(open.err, "kumiko: any is left out: its sizes are known only at run time"));
    CHECK(has(open.out, "any: left out, because its sizes are known only at run time\n"));
    const Json built = json_of(run("build k.json -o lib --quiet --expected lib/expected --json -"));
    CHECK(built["manifest"]["kernels"][0]["targets"][0]["schedule"]["origin"] == "tuned");
    CHECK(built["manifest"]["kernels"][0]["targets"][0]["measured"]["seconds"].get<double>() > 0);
    CHECK(std::filesystem::file_size(scratch() + "/lib/expected/mm.C.bin") == 32 * 32 * 4);
}

TEST_CASE("what was tuned for cold caches is taken when asked for") {
    std::filesystem::remove(scratch() + "/cold.db");
    const std::string op = "matmul --shape m=24,n=24,k=24";
    REQUIRE(run("tune " + op + " --trials 2 --db cold.db --quiet --cold").status == 0);
    CHECK(json_of(run("run " + op + " --threads 1 --seconds 0.01 --tuned cold.db --cold --json -"))["schedule"] ==
          "tuned");
    CHECK(run("show " + op + " --stage schedule --tuned cold.db --cold").status == 0);
    CHECK(has(run("run " + op + " --tuned cold.db").err, "cold.db has no schedule for this op"));
    CHECK(has(run("run matmul --shape m=23,n=24,k=24 --tuned cold.db --cold").err, "--db cold.db --cold\n"));
    if (FILE *f = fopen((scratch() + "/cold.json").c_str(), "w")) {
        fputs(
            R"({"name": "c", "kernels": [{"name": "mm", "op": "matmul", "parameters": {"m": 24, "n": 24, "k": 24}}]})",
            f);
        fclose(f);
    }
    const auto origin = [](const std::string &options) {
        return json_of(run("build cold.json -o coldlib --quiet --no-self-test --json - " +
                           options))["manifest"]["kernels"][0]["targets"][0]["schedule"]["origin"];
    };
    CHECK(origin("--db cold.db --cold") == "tuned");
    CHECK(origin("--db cold.db") != "tuned");
}

TEST_CASE("weights packed ahead: tuned, found and built when asked for") {
    std::filesystem::remove(scratch() + "/ahead.db");
    const std::string op = "matmul --shape m=24,n=32,k=24";
    REQUIRE(run("tune " + op + " --trials 2 --db ahead.db --quiet --ahead").status == 0);
    CHECK(has(run("best " + op + " --db ahead.db").err, "ahead.db has no schedule"));
    CHECK(has(run("best " + op + " --db ahead.db --threads 2 --cold --ahead").err, "--threads 2 --cold --ahead\n"));
    CHECK(has(run("best " + op + " --db ahead.db --ahead").out, "s.prepack(\"B\""));
    const Outcome elsewhere = run("best " + op + " --db ahead.db --any-machine --threads 2");
    CHECK(elsewhere.status == 1);
    CHECK(has(elsewhere.err, "neither of this machine nor of another"));
    CHECK(has(elsewhere.err, "--db ahead.db --threads 2\n"));
    CHECK(has(run("best " + op + " --db ahead.db --any-machine --cold --ahead").err, "--db ahead.db --cold --ahead\n"));
    const Json again = json_of(run("tune " + op + " --trials 2 --db ahead.db --quiet --ahead --json -"));
    CHECK(again[0]["ahead"] == true);
    CHECK(again[0]["cold"] == false);
    const std::string measured = "run " + op + " --threads 1 --seconds 0.01 --json - ";
    CHECK(json_of(run(measured + "--tuned ahead.db --ahead"))["schedule"] == "tuned");
    CHECK(json_of(run(measured + "--ahead"))["schedule"] == "default");
    CHECK(has(run("show " + op + " --ahead").out, "ahead of time: copy B.packed of B"));
    CHECK(has(run("run " + op + " --tuned ahead.db").err, "ahead.db has no schedule for this op"));
    if (FILE *f = fopen((scratch() + "/ahead.json").c_str(), "w")) {
        fputs(R"({"name": "a", "kernels": [
            {"name": "within", "op": "matmul", "parameters": {"m": 24, "n": 32, "k": 24}},
            {"name": "ahead", "op": "matmul", "parameters": {"m": 24, "n": 32, "k": 24}, "ahead": true}]})",
              f);
        fclose(f);
    }
    const auto kernels = [](const std::string &options) {
        return json_of(run("build ahead.json -o aheadlib --quiet --json - " + options))["manifest"]["kernels"];
    };
    const Json tuned = kernels("--db ahead.db"), plain = kernels("");
    for (const Json *of : {&tuned, &plain}) {
        CHECK(of->at(0)["packs"].empty());
        CHECK(of->at(1)["packs"].size() == 1);
        CHECK(of->at(0)["targets"][0]["schedule"]["origin"] == "default");
    }
    CHECK(tuned[1]["targets"][0]["schedule"]["origin"] == "tuned");
    CHECK(plain[1]["targets"][0]["schedule"]["origin"] == "default");
    if (FILE *f = fopen((scratch() + "/alone.json").c_str(), "w")) {
        fputs(R"({"name": "a", "kernels": [
            {"name": "ahead", "op": "matmul", "parameters": {"m": 25, "n": 32, "k": 24}, "ahead": true}]})",
              f);
        fclose(f);
    }
    REQUIRE(run("tune alone.json --trials 2 --db ahead.db --quiet").status == 0);
    CHECK(run("best matmul --shape m=25,n=32,k=24 --db ahead.db --ahead").status == 0);
    CHECK(run("best matmul --shape m=25,n=32,k=24 --db ahead.db").status != 0);
    REQUIRE(run("tune ahead.json --trials 2 --db ahead.db --quiet").status == 0);
    CHECK(kernels("--db ahead.db")[0]["targets"][0]["schedule"]["origin"] == "tuned");
    CHECK(json_of(run("bench ahead.json --no-peers --tuned ahead.db --seconds 0.01 --json -")).size() == 2);
}

TEST_CASE("Control-C: what is kept is said, and the exit status is that of what a signal ends") {
    std::filesystem::remove(scratch() + "/int.db");
    std::filesystem::remove(scratch() + "/int.html");
    const std::string tune = "tune matmul --shape m=96,n=96,k=96 --trials 100000 --db int.db --quiet --report int.html";
    // A shell would make its background processes ignore the signal.
    const Outcome o = [&] {
        const std::string line =
            "cd " + scratch() + " && exec " + command + " " + tune + " --json - >out 2>err </dev/null";
        const pid_t child = fork();
        if (child == 0) {
            std::signal(SIGINT, SIG_DFL);
            execl("/bin/sh", "sh", "-c", line.c_str(), nullptr);
            _exit(99);
        }
        for (int i = 0; i < 600; i++) { // until some trials are kept
            usleep(100'000);
            const Outcome known = run("db int.db --json -", "2");
            if (known.status == 0 && !Json::parse(known.out).empty()) break;
        }
        kill(child, SIGINT);
        int status = 0;
        waitpid(child, &status, 0);
        return Outcome{WIFEXITED(status) ? WEXITSTATUS(status) : -1, read(scratch() + "/out"),
                       read(scratch() + "/err")};
    }();
    CHECK(o.status == 130);
    CHECK(has(o.err, "kumiko: interrupted after "));
    CHECK(has(o.err,
              " of 100000 trials: all measurements are stored in int.db, and the same command continues from there\n"));
    const Json json = Json::parse(o.out);
    CHECK(json[0]["interrupted"] == true);
    CHECK(json[0]["measured"].get<int>() > 0);
    CHECK(has(read(scratch() + "/int.html"), "Tuning of matmul"));
    CHECK(
        json_of(run("tune matmul --shape m=96,n=96,k=96 --trials 1 --db int.db --quiet --json -"))[0]["interrupted"] ==
        false);
}

TEST_CASE("a budget that ends the search is named") {
    const Outcome o = run("tune matmul --shape m=8,n=8,k=8 --trials 1000 --budget 0.001 --quiet --db ''");
    CHECK(o.status == 0);
    CHECK(has(o.out, ": the budget ended it after "));
    CHECK(has(o.out, " of 1000 trials\n"));
    const Json json =
        json_of(run("tune matmul --shape m=8,n=8,k=8 --trials 1000 --budget 0.001 --quiet --db '' --json -"));
    CHECK(json[0]["budget_ended"] == true);
    CHECK(json_of(run(
              "tune matmul --shape m=8,n=8,k=8 --trials 2 --budget 100 --quiet --db '' --json -"))[0]["budget_ended"] ==
          false);

    std::ofstream(scratch() + "/budget.json")
        << R"({"name": "k", "kernels": [{"name": "a", "op": "softmax", "parameters": {"m": 4, "n": 20}},
                           {"name": "b", "op": "matmul", "parameters": {"m": 8, "n": 8, "k": 8}}]})";
    const Outcome both = run("tune budget.json --trials 1000 --budget 0.001 --quiet --db '' --json both.json");
    CHECK(both.status == 0);
    CHECK(has(both.out, "the budget ended the search after "));
    CHECK(has(both.out, " of 2000 trials\n"));
    for (const Json &kernel : Json::parse(read(scratch() + "/both.json"))) CHECK(kernel["budget_ended"] == true);
}

TEST_CASE("a kernel too large for memory is refused at once and leaves trials, page and results to the others") {
    std::ofstream(scratch() + "/large.json")
        << R"({"name": "k", "kernels": [{"name": "small", "op": "softmax", "parameters": {"m": 4, "n": 20}},
                           {"name": "large", "op": "matmul", "parameters": {"m": 2000000, "n": 2000000, "k": 2000000}}]})";
    for (const char *file : {"/large.html", "/large.db"}) std::filesystem::remove(scratch() + file);
    int tried = 0;
    for (const std::string trials : {"2", "2", "3"}) { // the later ones resume
        const Outcome o = run("tune large.json --trials " + trials +
                              " --quiet --report large.html --db large.db --json large-tuned.json");
        CHECK(o.status == 1);
        CHECK(has(o.out, "large cannot be tuned: tuning matmul takes some "));
        CHECK(has(o.err, "kumiko: of 2 kernels 1 was not tuned: large: tuning matmul takes some "));
        CHECK(has(o.err, " for its arrays and their expected values, and may take "));
        CHECK(has(read(scratch() + "/large.html"), "softmax"));
        const Json json = Json::parse(read(scratch() + "/large-tuned.json"));
        CHECK(json[0].contains("best_seconds"));
        CHECK(json[0]["known"] == tried);
        tried += json[0]["measured"].get<int>();
        CHECK(tried == std::stoi(trials)); // the other's trials are not its own
        CHECK(has(json[1]["error"].get<std::string>(), "this machine has; tune a smaller shape"));
    }
}

TEST_CASE("where no candidate is good, the page shows what failed") {
    for (const std::string database : {"''", "bad.db"}) {
        for (const char *file : {"/bad.db", "/bad.html"}) std::filesystem::remove(scratch() + file);
        const Outcome o =
            run("tune matmul --shape m=3,n=5,k=7 --type f64 --target chip:small --trials 2 --quiet --report "
                "bad.html --db " +
                database);
        CHECK(o.status == 1);
        CHECK(has(o.err, "kumiko: bad.html shows what failed\nkumiko: no candidate for matmul is good:\n"));
        const std::string page = read(scratch() + "/bad.html");
        CHECK(has(page, "No candidate is good"));
        CHECK(has(page, "<p>No trial failed.</p>")); // a refusal before building is no failure
        const size_t at = page.find("</td><td>unbuildable: A.LM0 has elements of f6#"),
                     all = page.find(" candidates were not legal, or could not be lowered");
        REQUIRE(at != std::string::npos);
        REQUIRE(all != std::string::npos);
        const auto number_before = [](const std::string &text, size_t end) {
            size_t begin = end;
            while (begin > 0 && std::isdigit(static_cast<unsigned char>(text[begin - 1]))) begin--;
            return begin < end ? std::stoi(text.substr(begin, end - begin)) : -1;
        };
        const int rejected = number_before(page, at);
        CHECK(rejected > 2);
        CHECK(rejected == number_before(page, all)); // for no other reason
        const size_t told = o.err.find(" × unbuildable: A.LM0 has elements of f64");
        REQUIRE(told != std::string::npos);
        const int said = number_before(o.err, told);
        // each schedule is stored once
        CHECK((database == "bad.db" ? rejected <= said : rejected == said));
    }
}

TEST_CASE("learning from a database of the other kind says what it holds") {
    std::filesystem::remove(scratch() + "/chip-only.db");
    CHECK(run("tune softmax --shape m=16,n=64 --target chip:small --trials 3 --quiet --db chip-only.db").status == 0);
    const Outcome o = run("learn --no-measure --db chip-only.db --folds 0 --out none.ubj");
    CHECK(o.status == 1);
    CHECK(
        has(o.err,
            "no model can be trained for host: no task has two candidates with features of version 3, of nests; "
            "3 have those of version 1001, of programs of the chip; kumiko learn --target chip:small trains on those"));
    CHECK(run("learn --no-measure --db chip-only.db --folds 0 --target chip:small --out of-chips.ubj").status == 0);
    CHECK(run("learn --no-measure --db chip-only.db --folds 0 --target chip:small --from of-chips.ubj --rounds 5 "
              "--out of-chips.ubj")
              .status == 0);
    const Outcome other = run("learn --no-measure --db chip-only.db --folds 0 --from of-chips.ubj --out none.ubj");
    CHECK(has(other.err,
              "of-chips.ubj was learned from features of version 1001, of programs of the chip; a model for host "
              "needs those of version 3, of nests"));
    CHECK(
        run("tune softmax --shape m=16,n=32 --target chip:small --trials 2 --quiet --cost-model of-chips.ubj").status ==
        0);
}

TEST_CASE("docs prints the reference page") {
    CHECK(run("docs primitives").out == read(KUMIKO_SOURCE_DIR "/docs/primitives.md"));
    const Outcome one = run("docs primitives place_in");
    CHECK(has(one.out, "### place_in"));
    CHECK(!has(one.out, "### split"));
    CHECK(json_of(run("docs --json -")).size() > 20);
    CHECK(run("docs functions").out == read(KUMIKO_SOURCE_DIR "/docs/functions.md"));
    CHECK(json_of(run("docs functions --json -")).size() > 20);
}

TEST_CASE("ops of a shared object are ops") {
    const std::string object = KUMIKO_BINARY_DIR "/tests/ops/libops_group_norm.so", op = object + ":group_norm_silu",
                      shape = " --shape N=1,G=2,C=3,H=4,W=17 ";
    const Json described = json_of(run("ops " + op + " --json -"));
    CHECK(described[0]["parameters"].size() == 5);
    CHECK(described[0]["parameters"][0]["kind"] == "size");
    CHECK(has(run("ops " + object).out, "group normalisation, then silu"));
    CHECK(has(run("show " + op + shape + "--stage formula").out, "group_norm_silu(X, scale) -> Y"));
    CHECK(json_of(run("run " + op + shape + "--seconds 0.01 --json -"))["checked"] == "within bounds");
    CHECK(json_of(run("run " + op + " --shape N=N,G=2,C=3,H=4,W=17 --sizes N=3 --seconds 0.01 --json -"))["checked"] ==
          "within bounds");
    // Sizes that only values depend on, up to the maximum.
    const std::string shifted = object + ":shifted --shape n=40,by=by";
    for (const char *by : {"3", "2147483647"}) {
        const std::string sizes = shifted + " --sizes by=" + by;
        const Outcome ran = run("run " + sizes + " --seconds 0.01 --json -");
        CHECK_MESSAGE(ran.status == 0, ran.err);
        CHECK(json_of(ran)["checked"] == "equal bits");
        CHECK(run("run " + sizes + " --no-check --seconds 0.01").status == 0);
        CHECK(run("show " + sizes + " --why").status == 0);
        CHECK(run("tune " + sizes + " --trials 1 --db ops.db --quiet").status == 0);
    }
    CHECK(has(run("run " + shifted).err, "size by has no value; give it a value, as --sizes by=100"));
    CHECK(has(run("run " + object + ":scaled --shape n=4,type=i32,factor=1,shift=true,by=2147483648").err,
              "parameter \"by\" is \"2147483648\"; legal is a whole number from -2147483648 to 2147483647"));
    CHECK(run("show " + object + ":scaled --shape n=4,type=i32,factor=1,shift=true,by=2147483647").status == 0);
    std::filesystem::remove(scratch() + "/ops.db");
    const Outcome tuned = run("tune " + op + shape + "--trials 3 --db ops.db --quiet");
    CHECK_MESSAGE(tuned.status == 0, tuned.err);
    const Outcome best = run("best " + op + shape + "--db ops.db --as cpp");
    CHECK_MESSAGE(has(best.out, "s.stage("), best.err);
    // By name only, without the object: the directives come from the database.
    const Outcome alone = run("best group_norm_silu --db ops.db --as cpp");
    CHECK(alone.status == 0);
    CHECK(alone.out.substr(alone.out.find('\n')) == best.out.substr(best.out.find('\n')));
    CHECK(has(run("best group_norm_silu --db ops.db --as nest").err, "name the op with its shared object"));
    CHECK(has(run("best group_norm_sliu --db ops.db").err, "did you mean 'group_norm_silu'?"));
    if (FILE *f = fopen((scratch() + "/ops.json").c_str(), "w")) {
        fprintf(f,
                R"({"name": "mine", "tuned": "ops.db", "kernels": [{"op": "%s:group_norm_silu", "parameters":
                   {"N": 1, "G": 2, "C": 3, "H": 4, "W": 17}}, {"op": "%s:scaled", "parameters":
                   {"n": "n", "type": "f64", "factor": 1.5, "shift": true, "by": 3}}]})",
                "../tests/ops/libops_group_norm.so", object.c_str());
        fclose(f);
    }
    const Json built = json_of(run("build ops.json -o oplib --quiet --json -"));
    CHECK(built["manifest"]["kernels"][0]["symbol"] == "mine_group_norm_silu");
    CHECK(built["manifest"]["kernels"][0]["targets"][0]["schedule"]["origin"] == "tuned");
    CHECK(
        std::system(("cd " + scratch() + "/oplib && cc mine_selftest.c libmine.a -lm -lpthread -o t && ./t >/dev/null")
                        .c_str()) == 0);
}

TEST_CASE("ops that call functions of their shared object are tuned") {
    const std::string op = KUMIKO_BINARY_DIR "/tests/ops/libops_trimmed.so:trimmed_mean";
    std::filesystem::remove(scratch() + "/trimmed.db");
    const Outcome tuned = run("tune " + op + " --shape M=8,N=64 --trials 3 --db trimmed.db --quiet --json -");
    CHECK_MESSAGE(tuned.status == 0, tuned.err);
    CHECK(json_of(tuned)[0]["measured"] == 3);
}

TEST_CASE("C functions of own ops take sizes as the op declares them, and any_shape takes strides") {
    const std::string object = KUMIKO_BINARY_DIR "/tests/ops/libops_group_norm.so";
    std::ofstream(scratch() + "/layer.json") << R"({"name": "own", "kernels": [
            {"name": "named", "op": ")" + object + R"(:layer", "parameters": {"M": "M", "N": "N", "K": "K"}},
            {"name": "fixed", "op": ")" + object + R"(:layer", "parameters": {"M": 4, "N": 16, "K": 8}},
            {"name": "any", "op": ")" + object + R"(:layer", "any_shape": true}]})";
    const Json built = json_of(run("build layer.json -o own --quiet --json -"));
    CHECK(built["manifest"]["abi_version"] == 3);
    CHECK(built["manifest"]["kernels"][0]["arguments"] == Json({"A", "B", "bias", "C", "M", "N", "K"}));
    CHECK(built["manifest"]["kernels"][2]["arguments"] ==
          Json({"A", "ldA", "B", "ldB", "bias", "C", "ldC", "M", "N", "K"}));
    CHECK(built["manifest"]["kernels"][2]["picks"] == Json({"own_fixed"}));
    CHECK(has(read(scratch() + "/own/own.h"),
              " *   ldC   size, 0 to 2147483647: elements from one row of C to the next, at least N\n"));
    std::ofstream(scratch() + "/own/main.c") << R"(
#include "own.h"
#include <stdio.h>
#include <string.h>
static float a[50 * 50], b[50 * 50], bias[50], c[50 * 50];
static float want(int lda, int ldb, int i, int j, int k) {
    float sum = 0;
    for (int r = 0; r < k; r++) sum += a[i * lda + r] * b[r * ldb + j];
    sum += bias[j];
    return sum > 0 ? sum : 0;
}
static int check(int lda, int ldb, int ldc, int m, int n, int k) {
    for (int i = 0; i < 50 * 50; i++) c[i] = -7;
    if (own_any(a, lda, b, ldb, bias, c, ldc, m, n, k)) return puts(own_error()), 1;
    for (int i = 0; i < 50 * 50; i++) {
        const int row = i / ldc, column = i % ldc;
        if (c[i] != (row < m && column < n ? want(lda, ldb, row, column, k) : -7)) return 1;
    }
    return 0;
}
int main(void) {
    for (int i = 0; i < 50 * 50; i++) a[i] = (float)(i % 5) - 2, b[i] = (float)(i % 7) - 3, bias[i % 50] = (float)(i % 4);
    if (own_named(a, b, bias, c, 3, 20, 9)) return 1;
    for (int i = 0; i < 3 * 20; i++) if (c[i] != want(9, 20, i / 20, i % 20, 9)) return 2;
    if (check(9, 20, 20, 3, 20, 9) || check(30, 41, 50, 7, 33, 12) || check(8, 16, 16, 4, 16, 8)) return 3;
    if (own_any(NULL, 8, b, 16, bias, c, 16, 4, 16, 8) == 0 || !strstr(own_error(), "own_fixed")) return 4;
    if (own_any(NULL, 9, b, 16, bias, c, 16, 4, 16, 8) == 0 || !strstr(own_error(), "own_any")) return 5;
    if (own_any(a, 9, b, 20, bias, c, 19, 3, 20, 9) == 0) return 6; /* rows of C overlap */
    return 0;
}
)";
    for (const char *program : {"own_selftest", "main"}) {
        const std::string source = program;
        CHECK_MESSAGE(std::system(("cd " + scratch() + "/own && cc -std=c99 -Wall -Wextra -Werror " + source +
                                   ".c libown.a -lm -lpthread -o t && ./t >/dev/null")
                                      .c_str()) == 0,
                      source);
    }
}

TEST_CASE("shared objects that do not serve") {
    const std::string folder = KUMIKO_BINARY_DIR "/tests/ops/libops_";
    const auto bad = [](const std::string &arguments, const std::string &part) {
        const Outcome o = run(arguments);
        INFO(arguments, ": ", o.err);
        CHECK(o.status == 1);
        CHECK(has(o.err, part));
    };
    bad("show ./none.so:relu --shape n=3", "there is no file ./none.so");
    bad("show " + folder + "group_norm.so:group_norm_sliu --shape N=1", "did you mean 'group_norm_silu'?");
    bad("show " + folder + "group_norm.so", "name one of its ops after a colon");
    bad("show " + folder + "group_norm.so:group_norm_silu --shape N=1,G=2", "needs the parameter \"C\"");
    bad("show " + folder + "group_norm.so:scaled --shape n=3,type=f32,factor=x,shift=true,by=2", "legal is a number");
    bad("show " + folder + "group_norm.so:broken --shape n=3", "the author is to blame");
    bad("show " + folder + "other_abi.so:x --shape n=3",
        "was compiled for \"ops 0, Halide 1.0, C++ ABI 1\", but this program needs \"ops 3, Halide");
    bad("show " + folder + "no_ops.so:x --shape n=3", "it has no symbol kumiko_exported_ops");
    bad("show " + std::string(KUMIKO_SOURCE_DIR) + "/README.md:x --shape n=3", "cannot load");
}

TEST_CASE("an output that cannot be written is an error") {
    const std::string err = scratch() + "/err";
    for (const char *what : {"ops", "docs primitives", "ops matmul"}) {
        const int status = std::system((command + " " + what + " >/dev/full 2>" + err).c_str());
        CHECK(WEXITSTATUS(status) == 1);
        CHECK(has(read(err), "the standard output cannot be written: No space left on device"));
    }
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
    bad("show gelu --shape n=8 --pass simplify",
        "--pass prints the IR after a pass: it needs --stage ir, not --stage nest");
    bad("shwo --help", "there is no command \"shwo\" (did you mean 'show'?)");
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
    bad("tune matmul --shape m=M,n=4,k=4", "size M has no value; give it a value, as --sizes M=100");
    bad("db t.db --db t.db", "--db");
    bad("db import new.db no.jsonl", "no.jsonl: cannot be read: No such file or directory");
    bad("db import new.db t.db", "kumiko db merge takes databases");
    CHECK(!std::filesystem::exists(scratch() + "/new.db"));
    bad("db merge t.db t.db", "t.db cannot be merged into itself");
    bad("db prune t.db", "this would remove every record");
    bad("db prune t.db --machine none-1", "knows no machine \"none-1\"");
    bad("db prune new.db --keep 3", "there is no tuning database new.db");
    bad("db report t.db matmull --out x.html", "did you mean 'matmul'?");
    bad("db report t.db matmul --shape m=3,n=3,k=3 --out x.html", "has no records of matmul --shape m=3,n=3,k=3");
    bad("db report t.db", "--out");
    bad("db report t.db --out /nonexistent/x.html", "cannot write /nonexistent/x.html");
    bad("tune matmul --shape m=4,n=4,k=4 --report /nonexistent/x.html", "there is no folder /nonexistent");
    bad("db report t.db matmul gelu --shape m=32,n=32,k=32 --out x.html", "--shape and --type belong to one op");
    bad("db stat t.db", "its parts are 'stats', 'export', 'import', 'merge', 'report' and 'prune'");
    bad("db stats t.db --kep", "stats has no option \"--kep\"");
    bad("db export t.db --out /nonexistent/t.jsonl", "cannot write /nonexistent/t.jsonl: No such file or directory");
    bad("db export t.db --out /dev/full", "cannot write /dev/full");
    bad("best matmul --shape m=3,n=3,k=3 --db t.db --any-machine",
        "has no schedule for this op at this shape, neither of this machine nor of another; tune it first: kumiko "
        "tune matmul");
    bad("show conv2d --shape c=4,h=2,w=9,o=4",
        "the height of the input is 2, and 2 with its padding, but the weights cover 3");
    bad("run matmul --shape m=4,n=4,k=4 --sizes M=4",
        "op \"matmul\" has no size \"M\" that is bound at run time: all its sizes are numbers");
    for (const std::string command : {"run", "tune", "best"})
        bad(command + " matmul --shape m=M,n=N,k=4 --sizes M=4,N=4,K=4",
            "op \"matmul\" has no size \"K\" that is bound at run time; it has 'M' and 'N'");
    bad("tune matmul --shape m=4,n=4,k=4 --sizes M=4", "all its sizes are numbers");
    bad("learn --only transpose --folds 50 --db learn.db", "50 folds need as many tasks, and there ");
    bad("learn --no-measure --db none.db", "there is no tuning database none.db");
    bad("learn --db learn.db --db none.db", "there is no tuning database none.db");
    bad("learn --db learn.db --from none.ubj --only transpose --folds 0", "cannot read the cost model none.ubj");
    CHECK(!std::filesystem::exists(scratch() + "/learn.db")); // nothing was measured
    bad("run matmul --shape m=4,n=4,k=4 --tuned no.db", "no.db");
    bad("bench gemm-f23", "did you mean 'gemm-f32'?");
    bad("bench rows --shape m=4,n=4", "several ops");
    bad("bench outside --shape m=4,n=4", "the suite outside has several ops");
    bad("bench outside --only nothing", "no case of the suite outside has \"nothing\" in its name");
    bad("bench own-ops --shape H=4", "--only NAME names the op of --shape");
    bad("bench own-ops --only heat --shape Z=4000", "heat of the suite own-ops has no size Z; it has 'H' and 'W'");
    bad("bench own-ops --only heat --shape H=4", "size H of heat is 4; in the suite own-ops it is at least 350");
    bad("build no.json", "no.json");
    bad("build open.json --cold", "name it with --db, or as \"tuned\" in open.json");
    bad("run matmul --shape m=4,n=4,k=4 --cold", "--cold requires --tuned");
    bad("best matmul --shape m=4,n=4,k=4 --db no.db", "no.db");
    bad("tune matmul --trails 3", "tune has no option \"--trails\" (did you mean '--trials'?)");
    bad("tune matmul --shape m=4,n=4,k=4 --trials 0", "\"0\" is not a number above 0");
    bad("tune matmul --shape m=4,n=4,k=4 --seed -1", "\"-1\" is not a number from 0");
    bad("tune matmul --shape m=4,n=4,k=4 --seed 1.5", "--seed");
    bad("bench tune --seed -1", "\"-1\" is not a number from 0");
    bad("run matmul extra", "run does not take a further argument \"extra\"; there are: --");
    bad("run matmul --threads many", "--threads");
    bad("docs primitives splitt", "did you mean 'split'?");
    bad("docs stories", "primitives");
    // the report itself is printed first
    const Outcome unwritable = run("machine --json /nonexistent/r.json");
    CHECK(unwritable.status == 1);
    CHECK(has(unwritable.err, "cannot write /nonexistent/r.json"));
}

TEST_CASE("an op on the simulated chip: run, shown at each level, its words simulated") {
    const std::string op = " matmul --shape m=64,n=64,k=64,transpose_b=true --type f16 --target chip:small";
    const Outcome ran = run("run" + op + " --report chip.html --json chip.json");
    CHECK(ran.status == 0);
    CHECK(ran.out.find("every bit equals the formula's") != std::string::npos);
    CHECK(ran.out.find("of the bound reached") != std::string::npos);
    const Json json = Json::parse(read(scratch() + "/chip.json"));
    CHECK(json["checked"] == "equal bits");
    CHECK(read(scratch() + "/chip.html").find("<svg") != std::string::npos);
    CHECK(run("show" + op + " --stage l3").out.find("B in DRAM") != std::string::npos);
    CHECK(run("show" + op + " --stage l2").out.find("mfma.f16: B.LM times A.GRF1") != std::string::npos);
    CHECK(run("show" + op + " --stage l1").out.find("mfma.f16") != std::string::npos);
    const Outcome words = run("show relu --shape n=4096 --type f16 --target chip:small --stage words");
    CHECK(words.out.find(".machine small") != std::string::npos);
    std::ofstream(scratch() + "/chip.kasm") << words.out;
    // DRAM is empty, but the words are a program without hazards
    const Outcome again = run("sim chip.kasm --zero");
    CHECK(again.status == 0);
    CHECK(run("machine chip:full").out.find("L2BM") != std::string::npos);
    const Outcome cpu = run("show" + op + " --stage asm");
    CHECK(cpu.status == 1);
    CHECK(cpu.err.find("the chip has l3, l2, l1 and words") != std::string::npos);
    const Outcome rows = run("run softmax --shape m=64,n=64 --type f16 --target chip:small");
    CHECK(rows.status == 0);
    const Outcome all = run("run reduce --shape shape=20,30 --type f16 --target chip:small");
    CHECK(all.status == 0);
    const Outcome first = run("run reduce --shape kind=argmax,shape=20,30 --type f16 --target chip:small");
    CHECK(first.status == 0);
    const Outcome none = run("run conv2d --shape c=4,h=5,w=5,o=4 --type bf16 --target chip:small");
    CHECK(none.status == 1);
    CHECK(has(none.err, "the library has no schedule of op conv2d for the chip"));
}

TEST_CASE("a chip of one's own is a file") {
    Json small = Json::parse(read(std::string(KUMIKO_SOURCE_DIR) + "/sim/configs/small.json"));
    small["moves"]["dram_rate"] = 4;
    small["expect"]["dram_bytes_per_cycle"] = 32;
    std::ofstream(scratch() + "/mine.json") << small;
    const Outcome mine = run("run add --shape n=10000 --type f16 --target chip:./mine.json --json mine.out");
    CHECK(mine.status == 0);
    const Outcome built_in = run("run add --shape n=10000 --type f16 --target chip:small --json small.out");
    CHECK(built_in.status == 0);
    CHECK(Json::parse(read(scratch() + "/mine.out"))["dram_bound_cycles"] == 1875);
    CHECK(Json::parse(read(scratch() + "/small.out"))["dram_bound_cycles"] == 937.5);
    const Outcome bench = run("bench chip-move --shape m=3");
    CHECK(bench.status == 1);
    CHECK(has(bench.err, "suite chip-move has cases of its own and takes no --shape"));
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
