#include "checkpoint/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "base/error.h"
#include "base/files.h"
#include "checkpoint/folder.h"
#include "checkpoint/store.h"

namespace titan::checkpoint {
namespace {
namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::string file_of(const std::string& header, const std::string& data) {
  const uint64_t length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + data;
}

// Pads to a multiple of 8 as every writer does.
std::string padded(std::string header) { return header.append((8 - header.size() % 8) % 8, ' '); }

class Strict : public testing::Test {
 protected:
  SafetensorsFile opened(const std::string& content) {
    files::write_atomically(path(), content);
    return SafetensorsFile(path());
  }
  // The file is refused by its name, with `words` in the message.
  void expect_refused(const std::string& content, const std::string& words) {
    EXPECT_THAT([&] { opened(content); },
                ThrowsMessage<Error>(AllOf(HasSubstr("a.safetensors"), HasSubstr(words))));
  }
  void expect_header_refused(const std::string& header, const std::string& data,
                             const std::string& words) {
    expect_refused(file_of(padded(header), data), words);
  }
  fs::path path() const { return folder_.path() / "a.safetensors"; }

  TestFolder folder_;
};

constexpr const char* kTwo =
    R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
    R"("b":{"dtype":"I64","shape":[],"data_offsets":[8,16]}})";

TEST_F(Strict, ValuesAreSeenWithoutACopyAndOutliveTheFile) {
  const float values[] = {1.5F, -2.0F};
  const int64_t count = 7;
  std::string data(16, '\0');
  std::memcpy(data.data(), values, 8);
  std::memcpy(data.data() + 8, &count, 8);
  at::Tensor a, b;
  {
    const auto file = opened(file_of(padded(kTwo), data));
    a = file.view("a");
    b = file.view("b");
    EXPECT_EQ(a.const_data_ptr(), file.bytes("a").data());
  }
  EXPECT_EQ(a[1].item<float>(), -2.0F);
  EXPECT_EQ(b.item<int64_t>(), 7);
}

TEST_F(Strict, TruncationIsRefusedAtEveryLength) {
  const std::string whole = file_of(padded(kTwo), std::string(16, 'x'));
  EXPECT_EQ(opened(whole).tensors().size(), 2U);
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_THAT([&] { opened(whole.substr(0, size)); },
                ThrowsMessage<Error>(HasSubstr("is cut off")))
        << size;
  }
  expect_refused(whole + "y", "1 bytes after its last tensor");
}

TEST_F(Strict, HeadersThatLieAreRefused) {
  expect_refused(std::string("\xff\xff\xff\xff\xff\xff\xff\x7f") + "{}",
                 "has a header of 9223372036854775807 bytes");
  expect_refused(file_of("[1]     ", ""), "does not start with '{'");
  expect_refused(file_of("", ""), "does not start with '{'");
  expect_header_refused(R"({"a":)", "", "no valid JSON");
  expect_header_refused("{\"\xff\":1}", "", "no valid JSON");
  expect_header_refused(
      R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],)"
      R"("data_offsets":[0,4]}})",
      "1234", "has the key 'a' twice");
  expect_header_refused(R"({"a":{"dtype":"F32","shape":[1],"shape":[1],"data_offsets":[0,4]}})",
                        "1234", "has the key 'shape' twice");
  expect_header_refused(R"({"a":[[[[[[]]]]]]})", "", "nests more than");
  expect_header_refused(R"({"a":7})", "", "tensor 'a' is 7, an object is needed");
  expect_header_refused(R"({"__metadata__":{"x":1}})", "", "__metadata__ 'x' is no string");
}

TEST_F(Strict, EntriesThatDoNotFitAreRefusedByTensorAndNumber) {
  const auto entry = [](const std::string& fields) { return "{\"w\":{" + fields + "}}"; };
  expect_header_refused(entry(R"("dtype":"F31","shape":[1],"data_offsets":[0,4])"), "1234",
                        "tensor 'w' has the element type F31");
  expect_header_refused(entry(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])"), "1234",
                        "tensor 'w' of F32 [2] needs 8 bytes, its offsets [0, 4) hold 4");
  expect_header_refused(entry(R"("dtype":"BF16","shape":[2],"data_offsets":[0,8])"), "12345678",
                        "needs 4 bytes");
  expect_header_refused(entry(R"("dtype":"F32","shape":[-1],"data_offsets":[0,4])"), "1234",
                        "'shape' holds -1");
  expect_header_refused(entry(R"("dtype":"F32","shape":[1.0],"data_offsets":[0,4])"), "1234",
                        "'shape' holds 1.0");
  expect_header_refused(entry(R"("dtype":"F32","shape":1,"data_offsets":[0,4])"), "1234",
                        "'shape' is 1, a list");
  expect_header_refused(
      entry(R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4])"), "1234",
      "exceeds 2^63 bytes");
  expect_header_refused(
      entry(R"("dtype":"F32","shape":[99999999999999999999],"data_offsets":[0,4])"), "1234",
      "'shape' holds");
  expect_header_refused(entry(R"("dtype":"F32","shape":[1],"data_offsets":[4,0])"), "1234",
                        "ends at byte 0 before its begin 4");
  expect_header_refused(entry(R"("dtype":"F32","shape":[1],"data_offsets":[0])"), "1234",
                        "has 1 data offsets");
  expect_header_refused(entry(R"("dtype":"F32","shape":[1])"), "1234", "has no 'data_offsets'");
  expect_header_refused(entry(R"("dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1)"), "1234",
                        "has 4 fields");
  expect_header_refused(entry(R"("dtype":"F32","shape":[2],"data_offsets":[0,8])"), "1234",
                        "is cut off: tensor 'w' ends at byte 8, the data has 4 bytes");
}

TEST_F(Strict, OverlapHoleAndMisalignmentAreRefused) {
  const auto two = [](int a0, int a1, int b0, int b1, const char* dtype = "U8") {
    return fmt::format(R"({{"a":{{"dtype":"U8","shape":[{}],"data_offsets":[{},{}]}},)"
                       R"("b":{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}}}})",
                       a1 - a0, a0, a1, dtype, (b1 - b0) / (dtype[0] == 'U' ? 1 : 4), b0, b1);
  };
  expect_header_refused(two(0, 4, 2, 8), "12345678",
                        "tensor 'b' at byte 2 overlaps 'a', which ends at byte 4");
  expect_header_refused(two(0, 4, 0, 4), "1234", "tensor 'b' at byte 0 overlaps 'a'");
  expect_header_refused(two(0, 4, 6, 8), "12345678",
                        "has a hole of 2 bytes before tensor 'b' at byte 6");
  expect_header_refused(two(2, 4, 4, 8), "12345678", "has a hole of 2 bytes before tensor 'a'");
  expect_header_refused(two(0, 3, 3, 7, "F32"), "1234567", "tensor 'b' is misaligned");
  const std::string header =
      two(0, 4, 4, 8, "F32");  // an unpadded header moves all tensors off their alignment
  expect_refused(file_of(header + std::string(4 - header.size() % 4 + 1, ' '), "12345678"),
                 "tensor 'b' is misaligned");
}

// A step folder whose files are cut at every length and have every byte flipped: it loads as it was
// or is refused.
class Fuzz : public testing::Test {
 protected:
  Fuzz() {
    at::manual_seed(1);
    snapshot_.model = {{"a.weight", at::randn({3, 2})},
                       {"b.weight", at::randn({4}).to(at::kBFloat16)}};
    snapshot_.optimizer = {{optimizer_name("step", "a.weight"), at::full({}, 5, at::kLong)}};
    snapshot_.state = {{"step", 5}, {"lr", 0.25}, {"name", "x"}};
    step_ = save(folder_.path(), 5, snapshot_).folder;
  }

  // Whether the folder loads; when it does, everything must be as it was saved.
  bool loads_as_saved() const {
    try {
      const Step step(step_);
      for (const auto part : {Part::kModel, Part::kOptimizer}) {
        const auto& saved = part == Part::kModel ? snapshot_.model : snapshot_.optimizer;
        std::vector<NamedTensor> loaded;
        for (const auto& [name, tensor, placement] : saved)
          loaded.push_back({name, at::zeros_like(tensor)});
        load_part(step, part, loaded);
        for (size_t i = 0; i < saved.size(); ++i)
          EXPECT_TRUE(at::equal(loaded[i].tensor, saved[i].tensor));
      }
      EXPECT_EQ(step.state(), snapshot_.state);
      EXPECT_EQ(step.index().step, 5);
      return true;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("[checkpoint]"));
      EXPECT_EQ(error.code(), ExitCode::kUsage);
      return false;
    }
  }

  TestFolder folder_;
  Snapshot snapshot_;
  fs::path step_;
};

void overwrite(const fs::path& path, std::string_view content) {
  files::Writer file(path);
  file.write(content);
}

TEST_F(Fuzz, EveryDamagedByteIsHarmlessOrRefused) {
  ASSERT_TRUE(loads_as_saved());
  int64_t refused = 0, harmless = 0;
  for (const auto& entry : fs::directory_iterator(step_)) {
    const std::string whole = files::read(entry.path());
    for (size_t at = 0; at < whole.size(); ++at) {
      for (const int flip : {0x01, 0x80, 0x20}) {
        std::string damaged = whole;
        damaged[at] = static_cast<char>(damaged[at] ^ flip);
        overwrite(entry.path(), damaged);
        ++(loads_as_saved() ? harmless : refused);
        if (HasFailure()) FAIL() << entry.path() << " byte " << at << " flip " << flip;
      }
    }
    overwrite(entry.path(), whole);
  }
  ASSERT_TRUE(loads_as_saved());
  EXPECT_GT(refused, 20 * harmless);  // harmless: white space, the text of __metadata__
}

TEST_F(Fuzz, EveryTruncationIsRefused) {
  for (const auto& entry : fs::directory_iterator(step_)) {
    const std::string whole = files::read(entry.path());
    // The index ends with a line feed that carries nothing.
    const size_t needed = entry.path().filename() == kIndexFile ? whole.size() - 1 : whole.size();
    for (size_t size = 0; size < needed; ++size) {
      overwrite(entry.path(), std::string_view(whole).substr(0, size));
      EXPECT_FALSE(loads_as_saved()) << entry.path() << " cut to " << size;
    }
    overwrite(entry.path(), whole);
  }
  ASSERT_TRUE(loads_as_saved());
}

TEST_F(Fuzz, MissingFilesAreNamed) {
  fs::remove(step_ / "optimizer-00001-of-00001.safetensors");
  EXPECT_THAT([&] { Step{step_}; },
              ThrowsMessage<Error>(HasSubstr("optimizer-00001-of-00001.safetensors is missing")));
}

}  // namespace
}  // namespace titan::checkpoint
