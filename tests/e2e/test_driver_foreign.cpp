// Cost: 60
// Libraries for other architectures: built, linked by cross compilers and run under QEMU, with and
// without an operating system. All use the kernels of tests/data/foreign_kernels.json.
#include "driver/library.h"
#include "driver/runtime_objects.h"
#include "support/atomic_file.h"
#include "support/error.h"
#include "support/json.h"
#include "tests/e2e/shell.h"

#include <doctest/doctest.h>

#include <cstdlib>

using namespace kumiko;
using namespace kumiko::e2e;
namespace fs = std::filesystem;

namespace {

struct Emulated {
    std::string target;
    std::vector<std::string> processors; // of QEMU
};

const std::vector<Emulated> machines = {
    {"aarch64", {"cortex-a53"}},
    {"aarch64-dotprod", {"cortex-a76"}},
    {"aarch64-bf16", {"max,sve=off"}},
    {"riscv64", {"rv64"}},
    {"riscv64-v",
     {"rv64,v=true,vext_spec=v1.0,vlen=128", "rv64,v=true,vext_spec=v1.0,vlen=256",
      "rv64,v=true,vext_spec=v1.0,vlen=512"}},
};

std::string architecture(const std::string &target) { return target.substr(0, target.find('-')); }

bool there(const std::string &program) {
    std::string text;
    return run("command -v " + program, text) == 0;
}

LibraryDescription kernels(const std::string &target) {
    LibraryDescription d = LibraryDescription::load(KUMIKO_SOURCE_DIR "/tests/data/foreign_kernels.json");
    d.targets = {target};
    return d;
}

// Runs the self-test, which must find every kernel correct.
void check_self_test(const std::string &command, size_t count) {
    const std::string text = must_run("timeout 300 " + command), number = std::to_string(count);
    INFO(text);
    CHECK(text.starts_with("far: " + number + " functions, "));
    CHECK(text.ends_with(" samples: " + number + " passed, 0 failed\n"));
}

// A PATH without compilers, during its lifetime.
struct NoCompilers {
    std::string before = std::getenv("PATH");
    NoCompilers() { setenv("PATH", "/nowhere", 1); }
    ~NoCompilers() { setenv("PATH", before.c_str(), 1); }
};

LibraryDescription small(const std::string &target) {
    LibraryDescription d = kernels(target);
    d.kernels.resize(2, d.kernels[0]);
    return d;
}

} // namespace

TEST_CASE("libraries for other processors with Linux pass their self-tests") {
    for (const Emulated &m : machines) {
        const std::string arch = architecture(m.target), cc = arch + "-linux-gnu-gcc",
                          emulator = "qemu-" + arch + "-static";
        CAPTURE(m.target);
        if (!there(cc) || !there(emulator)) {
            MESSAGE("left out: " << m.target << " needs " << cc << " and " << emulator);
            continue;
        }
        const fs::path folder = scratch("test_driver_foreign", m.target);
        const LibraryDescription d = kernels(m.target);
        const LibraryReport report = build_library(d, folder);
        CHECK(report.compiler == cc);
        CHECK(report.warnings.empty());
        CHECK(report.link == cc + " app.c -I" + folder.string() + " " + folder.string() + "/libfar.a -lm -lpthread");
        must_run("cd " + folder.string() + " && " + cc +
                 " -static -O1 -Wall -Wextra -Werror far_selftest.c libfar.a -lm -lpthread -o far_selftest");
        for (const std::string &processor : m.processors)
            check_self_test(emulator + " -cpu " + processor + " " + (folder / "far_selftest").string(),
                            d.kernels.size());
        // A processor without the required features gives an error, not an illegal instruction.
        if (m.target == "riscv64-v" || m.target == "aarch64-dotprod") {
            std::string text;
            CHECK(run(emulator + " -cpu " + (arch == "riscv64" ? "rv64" : "cortex-a53") + " " +
                          (folder / "far_selftest").string(),
                      text) == 1);
            CHECK(text.find("this processor lacks " + std::string(arch == "riscv64" ? "v" : "fullfp16")) !=
                  std::string::npos);
        }
    }
}

TEST_CASE("libraries for machines without an operating system pass theirs, with neither libc nor libm") {
    const std::string boards = KUMIKO_SOURCE_DIR "/tests/e2e/boards/";
    for (const Emulated &m : machines) {
        const std::string target = m.target + "-freestanding", arch = architecture(m.target),
                          cc = arch + "-linux-gnu-gcc", emulator = "qemu-system-" + arch;
        CAPTURE(target);
        if (!there(cc) || !there(emulator)) {
            MESSAGE("left out: " << target << " needs " << cc << " and " << emulator);
            continue;
        }
        const fs::path folder = scratch("test_driver_foreign", target);
        const LibraryDescription d = kernels(target);
        const LibraryReport report = build_library(d, folder);
        CHECK(report.warnings.empty());
        CHECK(report.compiler.starts_with(arch));
        CHECK(report.link.find("-lm") == std::string::npos);
        CHECK(report.link.find("-lpthread") == std::string::npos);
        CHECK(report.brings.find("memcpy") != std::string::npos);
        const bool arm = arch == "aarch64";
        must_run("cd " + folder.string() + " && " + cc +
                 " -O1 -Wall -Wextra -Werror -ffreestanding -fno-stack-protector -fno-pie -nostdlib -static " +
                 (arm ? "" : "-mcmodel=medany ") + "far_selftest.c " + boards + "board.c " + boards + arch +
                 ".S libfar.a -Wl,--build-id=none -Wl,--no-warn-rwx-segments -Wl,-T," + boards +
                 "board.ld -Wl,--defsym=base=" + (arm ? "0x40080000" : "0x80000000") + " -o far_selftest");
        const std::string command =
            "timeout 60 " + emulator +
            " -M virt -m 256M -nodefaults -display none -serial none -monitor none -semihosting -kernel " +
            (folder / "far_selftest").string() + (arm ? "" : " -bios none") + " -cpu ";
        for (const std::string &processor : m.processors) check_self_test(command + processor, d.kernels.size());
    }
}

TEST_CASE("without a cross compiler the runtime is a source, which packages and the command compile") {
    for (const std::string target : {"aarch64", "riscv64-freestanding"}) {
        const std::string arch = architecture(target), cc = arch + "-linux-gnu-gcc",
                          emulator = "qemu-" + arch + "-static";
        const bool bare = target != arch;
        if (arch == runtime_architecture()) continue;
        const fs::path folder = scratch("test_driver_foreign", target + "-source");
        const std::string at = folder.string();
        LibraryReport report;
        {
            const NoCompilers none;
            report = build_library(small(target), folder / "lib");
        }
        CHECK(report.compiler.empty());
        REQUIRE(report.warnings.size() == 1);
        CHECK(report.warnings[0].starts_with("there is no C compiler for " + arch + "-"));
        CHECK(report.warnings[0].find("programs compile far_runtime.c as well") != std::string::npos);
        CHECK(report.link.find(at + "/lib/far_runtime.c " + at + "/lib/libfar.a") != std::string::npos);
        std::string text;
        CHECK(run("ar t " + at + "/lib/libfar.a", text) == 0);
        CHECK(text.find("runtime") == std::string::npos);
        if (!there(cc) || !there(emulator)) {
            MESSAGE("left out: " << target << " needs " << cc << " and " << emulator);
            continue;
        }
        // The command that is printed; the freestanding self-test runs on Linux as well.
        std::string command = report.link;
        command.replace(command.find("app.c"), 5, "-static " + at + "/lib/far_selftest.c");
        if (bare) command.replace(command.find("-ffreestanding -nostdlib"), 24, "");
        must_run(command + " -o " + at + "/t");
        check_self_test(emulator + " " + at + "/t", 2);
        write_file_atomically(at + "/CMakeLists.txt",
                              "cmake_minimum_required(VERSION 3.16)\nproject(p C)\n"
                              "find_package(far CONFIG REQUIRED PATHS ${CMAKE_SOURCE_DIR}/lib NO_DEFAULT_PATH)\n"
                              "add_executable(p lib/far_selftest.c)\n"
                              "target_link_libraries(p far::far -static)\n");
        must_run("cmake -S " + at + " -B " + at + "/build -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=" + arch +
                 " -DCMAKE_C_COMPILER=" + cc + " && cmake --build " + at + "/build");
        check_self_test(emulator + " " + at + "/build/p", 2);
        if (there("pkg-config")) {
            must_run(cc + " -static " + at + "/lib/far_selftest.c $(PKG_CONFIG_PATH=" + at +
                     "/lib pkg-config --cflags --libs far) -o " + at + "/q");
            check_self_test(emulator + " " + at + "/q", 2);
        }
    }
}

TEST_CASE("a freestanding library of this architecture passes its self-test here") {
    const std::string target =
        runtime_architecture() == "x86_64" ? "x86-64-sse4.2-freestanding" : runtime_architecture() + "-freestanding";
    const fs::path folder = scratch("test_driver_foreign", "here");
    const LibraryReport report = build_library(kernels(target), folder, {.compiler = "cc"});
    CHECK(report.compiler == "cc");
    must_run("cd " + folder.string() + " && cc -O1 -Wall -Wextra -Werror far_selftest.c libfar.a -o far_selftest");
    check_self_test((folder / "far_selftest").string(), kernels(target).kernels.size());
    // Without libm and threads: all functions that it takes from elsewhere.
    std::string text;
    REQUIRE(run("cd " + folder.string() + " && ld -r --whole-archive libfar.a -o all.o && nm -u all.o", text) == 0);
    std::istringstream lines(text);
    for (std::string word; lines >> word;) {
        INFO(word);
        CHECK((word == "U" || word == "memset" || word == "memcpy" || word == "memmove" ||
               word == "_GLOBAL_OFFSET_TABLE_"));
    }
}

TEST_CASE("compilers that do not serve") {
    const std::string other = runtime_architecture() == "aarch64" ? "riscv64" : "aarch64";
    const auto complaint = [&](const std::string &compiler) -> std::string {
        try {
            build_library(small(other), scratch("test_driver_foreign", "never"), {.compiler = compiler});
        } catch (const UserError &e) {
            return e.what();
        }
        return "no error";
    };
    CHECK(complaint("cc").find("cc compiles for " + runtime_architecture() + ", but the library is for " + other) == 0);
    CHECK(
        complaint("/nowhere/cc").find("there is no program \"/nowhere/cc\" here; legal is a C compiler for " + other) ==
        0);
}
