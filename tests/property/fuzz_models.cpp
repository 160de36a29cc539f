// Feeds broken models to the reader and to what computes sizes, rules, groups and plans.
//
//   fuzz_models [--inputs N] [--seed S]
//
// Every input must give a program or a UserError or Unsupported: nothing else may be thrown, crash
// or hang.
#include "dsl/halide.h"
#include "graph/build/program.h"
#include "graph/rules/rules.h"
#include "support/error.h"
#include "support/random.h"
#include "tests/fuzz.h"

#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <sstream>
#include <unistd.h>

using namespace kumiko;
using namespace kumiko::graph;

namespace {

// Models that compute sizes, beside the rules' examples.
const char *const shaped[] = {
    R"((float[n, 3] x) => (float[m, 3] y) { s = Shape(x) a = Constant <value_ints = [0]> () b = Gather(s, a)
        c = Constant <value_ints = [3]> () d = Concat <axis = 0> (b, c) y = Reshape(x, d) })",
    R"((float[n, 6] x) => (float[p, q] y) { s = Constant <value_ints = [-1, 2]> () y = Reshape(x, s) })",
    R"((float[n] x) => (float[k] y) { s = Constant <value_ints = [1]> () e = Constant <value_ints = [9223372036854775807]> ()
        t = Constant <value_ints = [2]> () a = Constant <value_ints = [0]> () y = Slice(x, s, e, a, t) })",
    R"((float[n, 4] x) => (float[n, 2] y, float[n, 2] z) { s = Constant <value_ints = [2, 2]> ()
        y, z = Split <axis = 1> (x, s) })",
    R"((float[1, 2, n, 5] x) => (float[a, b, c, d] y) { s = Constant <value_floats = [1., 1., 2., 2.]> ()
        e = Constant <value = float[0] {}> () y = Resize <mode = "nearest"> (x, e, s) })",
    R"((float[1, 2, 7, 5] x, float[3, 2, 3, 3] w) => (float[a, b, c, d] y) {
        y = Conv <pads = [1, 1, 1, 1], strides = [2, 1], dilations = [1, 2]> (x, w) })",
    R"((float[1, 2, 7, 5] x) => (float[a, b, c, d] y) {
        y = MaxPool <kernel_shape = [3, 2], ceil_mode = 1, strides = [2, 2], pads = [1, 0, 1, 1]> (x) })",
    R"((float[n, 3] x) => (float[a, b] y) { s = Constant <value_ints = [2, 3]> () y = Tile(x, s) })",
    R"((float[n, 1] x) => (float[a, b] y) { s = Constant <value_ints = [2, 5]> () y = Expand(x, s) })",
    R"((float[n] x) => (int64[a] y) { s = Size(x) z = Constant <value_int = 0> () o = Constant <value_int = 1> ()
        y = Range(z, s, o) })",
    R"((float[n, 3] x) => (float[a, b] y) { p = Constant <value_ints = [1, 0, -1, 2]> () y = Pad(x, p) })",
    R"((float[n, 3] x) => (float[a, b] y) { s = Shape(x) y = ConstantOfShape <value = float[1] {2.}> (s) })",
    R"((float[n, 3] x) => (float[a] y) { c = Constant <value = bool[1] {1}> () q = Squeeze(c)
        y = If(q) <then_branch = t () => (float[a] u) { s = Constant <value_ints = [-1]> () u = Reshape(x, s) },
                   else_branch = e () => (float[a] v) { s = Constant <value_ints = [1]> () v = Reshape(x, s) }> })",
    R"((float[n, 3] x, int64[2] i) => (float[a, b] y) { y = Gather <axis = 1> (x, i) })",
    R"((float[2, 3] x) => (float[2, 3] y) { m = ReduceMean <axes = [-1], keepdims = 1> (x) d = Sub(x, m)
        y = Mul(d, d) })",
    R"((float[2, n, 4] x, float[2, 4, 5] w) => (float[2, n, 5] y) { z = MatMul(x, w) y = Softmax <axis = 1> (z) })",
    R"((float[2, 3, 4] x) => (float[a] y) { t = Transpose <perm = [2, 0, 1]> (x) y = Flatten <axis = 2> (t) })",
};

struct Counts {
    uint64_t texts = 0, files = 0, read = 0, fixed = 0, programs = 0;
};

class Fuzzer {
public:
    explicit Fuzzer(uint64_t seed) : r_(seed) {
        const std::string header = "<ir_version: 8, opset_import: [\"\" : 17]> g ";
        for (const char *text : shaped) texts_.push_back(header + text);
        for (const Rule &rule : all_rules())
            texts_.push_back("<ir_version: 10, opset_import: [\"\" : 21]> g " + rule.before);
        const auto file = std::filesystem::temp_directory_path() / ("fuzz_models." + std::to_string(getpid()));
        for (const std::string &text : texts_) {
            Model::parse_text(text, "seed").save(file.string());
            std::ifstream in(file, std::ios::binary);
            std::stringstream bytes;
            bytes << in.rdbuf();
            files_.push_back(bytes.str());
        }
        std::filesystem::remove(file);
    }

    // Throws on a failure; `input` is what was tried.
    void one() {
        try {
            const bool as_text = r_.chance(0.5);
            as_text ? counts.texts++ : counts.files++;
            input = as_text ? text() : bytes();
            const Model model = as_text ? Model::parse_text(input, "fuzz") : Model::parse(input, "fuzz");
            counts.read++;
            if (r_.chance(0.5)) model.check();
            FixOptions options;
            for (const ValueInfo &in : model.graph().inputs) {
                for (const Dimension &d : in.shape.value_or(std::vector<Dimension>())) {
                    if (!d.number && !d.symbol.empty())
                        options.sizes[d.symbol] =
                            r_.pick(std::vector<int64_t>{4, 6, 4, 6, 2, 1, 0, -1, 1 << 20, INT64_MAX});
                }
            }
            FixedGraph graph = fix_sizes(model, options);
            counts.fixed++;
            simplify(graph);
            make_program(graph);
            counts.programs++;
        } catch (const UserError &) {
        } catch (const Unsupported &) {
        } catch (const Halide::Error &e) {
            throw std::runtime_error(e.what());
        }
    }

    std::string summary() const {
        return fmt::format("{} texts, {} files; {} read, {} with sizes, {} programs", counts.texts, counts.files,
                           counts.read, counts.fixed, counts.programs);
    }

    Counts counts;
    std::string input;

private:
    std::string text() {
        std::string s = r_.pick(texts_);
        const std::vector<std::string> tokens = {"0",
                                                 "-1",
                                                 "1",
                                                 "9223372036854775807",
                                                 "-9223372036854775808",
                                                 "4611686018427387904",
                                                 "65536",
                                                 "2147483648",
                                                 "nan",
                                                 "inf",
                                                 "1e30",
                                                 "-0.0",
                                                 "[",
                                                 "]",
                                                 "(",
                                                 ")",
                                                 "{",
                                                 "}",
                                                 "<",
                                                 ">",
                                                 ",",
                                                 "\"\"",
                                                 "x",
                                                 "y",
                                                 "n",
                                                 "float",
                                                 "int64",
                                                 "bool",
                                                 "string",
                                                 "uint8",
                                                 "float16",
                                                 "Shape",
                                                 "Reshape",
                                                 "Cast",
                                                 "Loop",
                                                 "Identity",
                                                 "NonZero",
                                                 "Gather",
                                                 "Concat",
                                                 "axis",
                                                 "to",
                                                 "perm",
                                                 "value_ints",
                                                 "17",
                                                 "1",
                                                 "21",
                                                 "\"com.microsoft\""};
        for (int n = r_.chance(0.7) ? 1 : 2 + int(r_.below(3)); n > 0; n--) {
            const size_t at = r_.below(s.size() + 1);
            switch (r_.below(8)) {
            case 5:
            case 6:
            case 0: { // another number
                size_t digit = s.find_first_of("0123456789", at);
                if (digit == std::string::npos) break;
                size_t end = s.find_first_not_of("0123456789", digit);
                s.replace(digit, std::min(end, s.size()) - digit, r_.pick(tokens));
                break;
            }
            case 7:
            case 1: { // another word
                size_t word = s.find_first_of(" (,", at);
                if (word == std::string::npos) break;
                size_t end = s.find_first_of(" (,)]", word + 1);
                s.replace(word + 1, std::min(end, s.size()) - word - 1, r_.pick(tokens));
                break;
            }
            case 2:
                s.insert(at, r_.pick(tokens));
                break;
            case 3:
                s.erase(at, r_.below(12));
                break;
            default:
                s.insert(at, s.substr(r_.below(s.size() + 1), r_.below(40)));
                break;
            }
        }
        return s;
    }

    std::string bytes() {
        std::string s = r_.pick(files_);
        for (int n = r_.chance(0.7) ? 1 : 2 + int(r_.below(3)); n > 0; n--) {
            const size_t at = r_.below(s.size() + 1);
            switch (r_.below(9)) {
            case 7:
            case 0:
                if (at < s.size()) s[at] = char(r_());
                break;
            case 8:
            case 1:
                if (at < s.size()) s[at] = char(s[at] ^ 1 << r_.below(8));
                break;
            case 2:
                s.erase(at, r_.below(16));
                break;
            case 3:
                s.insert(at, std::string(r_.below(9), char(r_())));
                break;
            case 4: { // part of another file
                const std::string &other = r_.pick(files_);
                s.insert(at, other.substr(r_.below(other.size() + 1), r_.below(60)));
                break;
            }
            case 5:
                s.insert(at, s.substr(r_.below(s.size() + 1), r_.below(60)));
                break;
            default:
                if (r_.chance(0.2)) s.resize(at);
                break;
            }
        }
        return s;
    }

    Random r_;
    std::vector<std::string> texts_, files_;
};

} // namespace

int main(int argc, char **argv) { return run_fuzzer<Fuzzer>(argc, argv, 20000); }
