#include "observe/event_file.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/files.h"
#include "observe/temp_folder.h"

namespace titan::observe {
namespace {

TEST(EventFile, Crc32cMatchesThePublishedVectors) {
  // RFC 3720, appendix B.4, and the check value of the CRC catalogue.
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(crc32c(std::string(32, '\xFF')), 0x62A8AB43u);
  EXPECT_EQ(crc32c(""), 0u);
}

TEST(EventFile, RecordsCarryLengthAndMaskedSums) {
  const std::string record = tf_record("abc");
  ASSERT_EQ(record.size(), 8u + 4 + 3 + 4);
  EXPECT_EQ(record.substr(0, 8), std::string("\3\0\0\0\0\0\0\0", 8));
  EXPECT_EQ(record.substr(12, 3), "abc");
}

TEST(EventFile, EncodesAScalarByTheMessageLayout) {
  // 1.0 as double is 3FF0…; step 300 as varint AC 02; value 2.0f is 40000000.
  const std::string expected(
      "\x09\0\0\0\0\0\0\xF0\x3F\x10\xAC\x02\x2A\x0A\x0A\x08\x0A\x01t\x15\0\0\0\x40", 24);
  EXPECT_EQ(scalar_event(1.0, 300, {{"t", 2.0}}), expected);
}

TEST(EventFile, IsFlushedAfterEachEventAndLeavesOutWhatIsNotFinite) {
  const TempFolder folder;
  EventFile file(folder.path() / "tb");
  const auto size = [&] { return files::read(file.path()).size(); };
  const size_t begin = size();
  EXPECT_GT(begin, 16u);
  file.add(1, {{"loss", NAN}});
  EXPECT_EQ(size(), begin);
  file.add(1, {{"loss", NAN}, {"lr", 0.5}});
  EXPECT_EQ(size(), begin + tf_record(scalar_event(1, 1, {{"lr", 0.5}})).size());
  EXPECT_NE(file.path().filename().string().find("tfevents"), std::string::npos);
}

}  // namespace
}  // namespace titan::observe
