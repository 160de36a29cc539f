// The command `kumiko`. Reports are written to the standard output, errors and progress to standard
// error. Exit status: 0; 1 for errors that the user can fix; 70 for an internal error; 130 for a
// search that Control-C ended, with its result.
#include "cli/common.h"

#include "autotune/measurer.h"
#include "support/duration.h"
#include "support/error.h"
#include "support/memory.h"
#include "support/names.h"
#include "targets/cpu/cpu_target.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <new>
#include <sstream>

using namespace kumiko;

namespace {

// For "db stats", the second is a subcommand of the first.
const CLI::App &innermost(const CLI::App &app) {
    const auto chosen = app.get_subcommands();
    return chosen.empty() ? app : innermost(*chosen.front());
}

// What is wrong with the arguments, and what is legal.
std::string complaint(const CLI::App &app, const CLI::ParseError &e) {
    const CLI::App &command = innermost(app);
    std::string text = e.what();
    if (e.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError)) {
        // "... expected: 3 --trails": only the exception knows them.
        std::istringstream words(text.substr(text.rfind(": ") + 2));
        std::string first;
        for (std::string word; words >> word;) {
            if (first.empty() || word.starts_with("-")) first = word;
        }
        std::vector<std::string> options;
        for (const CLI::Option *o : command.get_options()) {
            for (const std::string &name : o->get_lnames()) options.push_back("--" + name);
        }
        if (first.starts_with("-"))
            return command.get_name() + " has no option \"" + first + "\"" +
                   suggest(first.substr(0, first.find('=')), options);
        std::vector<std::string> parts;
        for (const CLI::App *part : command.get_subcommands(nullptr)) parts.push_back(part->get_name());
        if (!parts.empty())
            return command.get_name() + " does not take a further argument \"" + first + "\"; its parts are " +
                   quoted_list(parts) + ", and stand before a file";
        return command.get_name() + " does not take a further argument \"" + first + "\"" + suggest("", options);
    }
    // The text begins with the option; names of others may be in the values after it.
    const CLI::Option *named = nullptr;
    std::pair<size_t, size_t> best; // place, characters that the name lacks
    for (const CLI::Option *o : command.get_options()) {
        const std::string name = o->get_single_name();
        const std::pair<size_t, size_t> place = {text.find(name), text.size() - std::min(text.size(), name.size())};
        if (place.first == std::string::npos || o->get_description().empty() || (named && best <= place)) continue;
        named = o, best = place;
    }
    return named
               ? text + "\n  " + named->get_name(true) + " " + named->get_type_name() + ": " + named->get_description()
               : text;
}

int run(int argc, char **argv) {
    // Exceeding the file size limit becomes an error of the write, after which no partial file
    // remains.
    std::signal(SIGXFSZ, SIG_IGN);
    CLI::App app("Kumiko: write an operator as a formula, schedule it, tune it, and ship it as a C library.", "kumiko");
    app.require_subcommand(1);
    app.get_formatter()->column_width(34);
    app.add_option_function<std::string>(
           "--limit", [](const std::string &level) { limit_features(level); },
           "treat this processor as one of a lower level: x86-64-avx2; `kumiko machine --list` lists them")
        ->type_name("LEVEL")
        ->trigger_on_parse();
    cli::add_ops(app);
    cli::add_show(app);
    cli::add_run(app);
    cli::add_tune(app);
    cli::add_worker(app);
    cli::add_learn(app);
    cli::add_best(app);
    cli::add_db(app);
    cli::add_build(app);
    cli::add_bench(app);
    cli::add_machine(app);
    cli::add_docs(app);
    cli::add_sim(app);
    cli::add_examples(app,
                      "  kumiko ops                                         which operators there are\n"
                      "  kumiko show softmax --shape m=64,n=128             a formula as a loop nest\n"
                      "  kumiko run matmul --shape m=512,n=512,k=512        compile, check against the formula, time\n"
                      "  kumiko tune matmul --shape m=512,n=512,k=512       search for a better schedule\n"
                      "  kumiko build kernels.json -o out                   a static library and a C header\n"
                      "  kumiko bench gemm-f32                              compare with OpenBLAS and oneDNN\n"
                      "  kumiko sim program.kasm                            run a program on the simulated chip\n"
                      "`kumiko COMMAND --help` says more of each.");
    try {
        app.parse(argc, argv);
        std::cout.flush();
        if (!std::cout || std::fflush(stdout) != 0 || std::ferror(stdout))
            throw UserError(std::string("the standard output cannot be written: ") + std::strerror(errno));
        return 0;
    } catch (const CLI::ParseError &e) {
        std::vector<std::string> commands;
        for (const CLI::App *sub : app.get_subcommands(nullptr)) commands.push_back(sub->get_name());
        const std::string first = argc > 1 ? argv[1] : "";
        const bool unknown =
            !first.empty() && first[0] != '-' && std::find(commands.begin(), commands.end(), first) == commands.end();
        if (!unknown && e.get_exit_code() == 0) return app.exit(e); // help
        if (unknown)
            std::cerr << "kumiko: there is no command \"" << first << "\"" << suggest(first, commands) << "\n";
        else
            std::cerr << "kumiko: " << complaint(app, e) << "\n";
        std::string chosen;
        for (const CLI::App *c = &innermost(app); c != &app; c = c->get_parent()) chosen = c->get_name() + " " + chosen;
        std::cerr << "`kumiko " << chosen << "--help` lists what is possible\n";
        return 1;
    } catch (const cli::Interrupted &) {
        std::cout.flush();
        return 130;
    } catch (const UserError &e) {
        std::cerr << "kumiko: " << e.what() << "\n";
        return 1;
    } catch (const Unsupported &e) {
        std::cerr << "kumiko: not supported yet: " << e.what() << "\n";
        return 1;
    } catch (const Halide::Error &e) {
        std::cerr << "kumiko: internal error (please report it): " << e.what() << "\n";
        return 70;
    } catch (const std::bad_alloc &) {
        std::cerr << "kumiko: there is not enough memory: this machine has "
                  << bytes_text(static_cast<double>(machine_memory()))
                  << ", and more was requested than is free for this program\n";
        return 1;
    } catch (const std::exception &e) {
        std::cerr << "kumiko: internal error (please report it): " << e.what() << "\n";
        return 70;
    }
}

} // namespace

int main(int argc, char **argv) {
    act_as_measurer(argc, argv);
    const int status = run(argc, argv);
    std::cout.flush();
    std::fflush(nullptr);
    // A compiler that hung may still run in a thread (autotune/build.h), and needs objects that
    // exit() destroys.
    std::_Exit(status);
}
