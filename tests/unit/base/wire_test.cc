#include "common/base/wire.h"

#include <gtest/gtest.h>

namespace baton {
namespace {

TEST(Wire, ValuesComeBackInOrder) {
  WireWriter writer;
  writer.Put(uint8_t{7});
  writer.Put(1.5);
  writer.PutBytes("abc");
  writer.PutVector(std::vector<uint64_t>{1, 2, 3});
  const std::string bytes = writer.Take();
  WireReader reader(bytes);
  EXPECT_EQ(reader.Get<uint8_t>(), 7);
  EXPECT_EQ(reader.Get<double>(), 1.5);
  EXPECT_EQ(reader.GetBytes(), "abc");
  EXPECT_EQ(reader.GetVector<uint64_t>(), (std::vector<uint64_t>{1, 2, 3}));
  EXPECT_TRUE(reader.Finish("test").ok());
}

TEST(Wire, ALengthBeyondTheInputFailsWithoutAllocating) {
  WireWriter writer;
  writer.Put(uint32_t{0xffffffff});
  const std::string bytes = writer.Take();
  WireReader text(bytes), numbers(bytes);
  EXPECT_EQ(text.GetBytes(), "");
  EXPECT_FALSE(text.Finish("text").ok());
  EXPECT_TRUE(numbers.GetVector<uint64_t>().empty());
  EXPECT_FALSE(numbers.Finish("numbers").ok());
}

TEST(Wire, EveryTruncationIsNoticed) {
  WireWriter writer;
  writer.Put(uint64_t{1});
  writer.PutBytes("abcdef");
  const std::string bytes = writer.Take();
  for (size_t size = 0; size < bytes.size(); ++size) {
    WireReader reader(std::string_view(bytes).substr(0, size));
    reader.Get<uint64_t>();
    reader.GetBytes();
    EXPECT_FALSE(reader.Finish("message").ok()) << size;
  }
}

TEST(Wire, BytesLeftOverAreAnError) {
  WireReader reader("xy");
  reader.Get<uint8_t>();
  EXPECT_EQ(reader.Finish("message").message(), "message has 1 bytes too many");
}

}  // namespace
}  // namespace baton
