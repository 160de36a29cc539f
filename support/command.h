#pragma once

#include <string>

namespace kumiko {

// Runs a shell command and waits for it. `printed` receives its standard output and error output.
// Returns its exit status, or -1 if it could not be started or was killed.
int run_command(const std::string &command, std::string &printed);

} // namespace kumiko
