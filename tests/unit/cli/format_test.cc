#include "services/cli/format.h"

#include <gmock/gmock.h>

#include "services/cli/bar.h"
#include "services/cli/text_table.h"

namespace baton::cli {
namespace {

TEST(Format, CountsHaveThousands) {
  EXPECT_EQ(FormatCount(0), "0");
  EXPECT_EQ(FormatCount(999), "999");
  EXPECT_EQ(FormatCount(1000), "1,000");
  EXPECT_EQ(FormatCount(494'032'768), "494,032,768");
  EXPECT_EQ(FormatCount(UINT64_MAX), "18,446,744,073,709,551,615");
}

TEST(Format, BytesInTheLargestBinaryUnit) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(1023), "1023 B");
  EXPECT_EQ(FormatBytes(196'608), "192.0 KiB");
  EXPECT_EQ(FormatBytes(10.63 * 1024 * 1024 * 1024), "10.63 GiB");
}

TEST(Format, SecondsInAReadableUnit) {
  EXPECT_EQ(FormatSeconds(0.00085), "850 us");
  EXPECT_EQ(FormatSeconds(0.0412), "41.2 ms");
  EXPECT_EQ(FormatSeconds(3.25), "3.25 s");
  EXPECT_EQ(FormatSeconds(125), "2 min 05 s");
}

TEST(Format, ForeignTextCannotSteerTheTerminal) {
  EXPECT_EQ(TerminalSafe("a\x1b[2Jb\x07\tc\n"), "a?[2Jb?\tc\n");
  EXPECT_EQ(TerminalSafe("\xc2\x9b"
                         "31m"),
            "?31m");  // C1: control sequence introducer
  EXPECT_EQ(TerminalSafe("gr\xc3\xbc\xc3\x9f \xf0\x9f\x99\x82"), "gr\xc3\xbc\xc3\x9f \xf0\x9f\x99\x82");
  EXPECT_EQ(OneLine("two\nlines\r"), "two lines?");
}

TEST(Format, WidthCountsCharactersNotBytes) {
  EXPECT_EQ(TextWidth("gr\xc3\xbcn"), 4u);
  EXPECT_EQ(CutToWidth("gr\xc3\xbcn", 3), "gr\xc3\xbc");
  EXPECT_EQ(CutToWidth("ab", 5), "ab");
}

TEST(TextTable, ColumnsAreAsWideAsTheirLongestCell) {
  TextTable table({{"name"}, {"count", true}, {"note"}});
  table.AddRow({"a", "1", "x"});
  table.AddRow({"gr\xc3\xbcn\nblau", "12345678"});
  EXPECT_THAT(table.Lines(), testing::ElementsAre("name          count  note", "a                 1  x",
                                                  "gr\xc3\xbcn blau  12345678"));
}

TEST(FactList, ValuesStandBelowEachOther) {
  FactList facts;
  facts.Add("layers", "24");
  facts.Add("kv", "12,288 bytes");
  EXPECT_EQ(facts.Text(), "layers  24\nkv      12,288 bytes\n");
}

TEST(ProgressLine, FillsWithTheWorkDone) {
  EXPECT_EQ(ProgressLine("reading", 0, 0, 4), "reading  [....]   0%  0 B of 0 B");
  EXPECT_EQ(ProgressLine("reading", 512, 1024, 4), "reading  [##..]  50%  512 B of 1.0 KiB");
  EXPECT_EQ(ProgressLine("reading", 2048, 1024, 4), "reading  [####] 100%  1.0 KiB of 1.0 KiB");
}

TEST(ShareBar, SplitsByAmountInOrder) {
  EXPECT_EQ(ShareBar({{'#', 50}, {'.', 50}}, 10), "#####.....");
  EXPECT_EQ(ShareBar({{'#', 0}, {'.', 0}}, 3), "   ");
}

TEST(ShareBar, TheSmallestShareShows) {
  EXPECT_EQ(ShareBar({{'#', 999'999}, {'!', 1}}, 10), "#########!");
  EXPECT_EQ(ShareBar({{'#', 5}, {'!', 0}, {'.', 5}}, 4), "##..");
}

TEST(StepsLine, TellsWhatComesNow) {
  EXPECT_EQ(StepsLine("batching", 1, 4, "static", 8), "batching  [##......]  25%  1 of 4: static");
  EXPECT_EQ(StepsLine("batching", 0, 0, "nothing", 4), "batching  [....]   0%  0 of 0: nothing");
}

}  // namespace
}  // namespace baton::cli
