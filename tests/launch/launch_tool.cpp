// `titan launch` without the rest of titan, whose ranks run shell code: launch_tool launch -n 2 --
// sh 'echo $RANK'.
#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

#include "base/error.h"
#include "launch/launch.h"

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() == 2 && words[0] == "sh") {
    execl("/bin/sh", "sh", "-c", words[1].c_str(), nullptr);
    return 127;
  }
  try {
    if (words.empty() || words[0] != "launch") throw titan::Error("[test] launch or sh, not more");
    const auto options = titan::launch::parse(std::span(words).subspan(1));
    return options ? titan::launch::run(*options) : 0;
  } catch (const titan::Error& error) {
    std::fprintf(stderr, "titan: %s\n", error.what());
    return static_cast<int>(error.code());
  }
}
