#include "services/cli/conversation.h"

#include <gmock/gmock.h>

namespace baton::cli {
namespace {

using Kind = ChatLine::Kind;

std::vector<std::string> Said(const Conversation& conversation) {
  std::vector<std::string> said;
  const v1::Chat chat = conversation.ToChat();
  for (const v1::ChatMessage& message : chat.messages()) {
    said.push_back(message.role() + ": " + message.content());
  }
  return said;
}

TEST(ParseChatLine, CommandsAndMessages) {
  EXPECT_EQ(ParseChatLine("  \r").kind, Kind::kEmpty);
  EXPECT_EQ(ParseChatLine("  hello there \r").text, "hello there");
  EXPECT_EQ(ParseChatLine("/reset").kind, Kind::kReset);
  EXPECT_EQ(ParseChatLine("/quit").kind, Kind::kQuit);
  EXPECT_EQ(ParseChatLine("/system  Be terse.").kind, Kind::kSystem);
  EXPECT_EQ(ParseChatLine("/system  Be terse.").text, "Be terse.");
  EXPECT_EQ(ParseChatLine("/system").text, "");
}

TEST(ParseChatLine, AMistypedCommandIsNoMessage) {
  EXPECT_EQ(ParseChatLine("/rest").kind, Kind::kUnknownCommand);
  EXPECT_EQ(ParseChatLine("/systemic").kind, Kind::kUnknownCommand);
}

TEST(ParseChatLine, TwoSlashesBeginAMessage) {
  EXPECT_EQ(ParseChatLine("//etc/passwd").kind, Kind::kMessage);
  EXPECT_EQ(ParseChatLine("//etc/passwd").text, "/etc/passwd");
}

TEST(Conversation, KeepsWhatWasSaid) {
  Conversation conversation("Be terse.");
  conversation.AddUser("Hi");
  conversation.EndTurn("Hello");
  conversation.AddUser("Bye");
  EXPECT_THAT(Said(conversation),
              testing::ElementsAre("system: Be terse.", "user: Hi", "assistant: Hello", "user: Bye"));
}

TEST(Conversation, AnUnansweredMessageIsTakenBack) {
  Conversation conversation("");
  conversation.AddUser("Hi");
  conversation.EndTurn("");
  conversation.AddUser("Hi again");
  EXPECT_THAT(Said(conversation), testing::ElementsAre("user: Hi again"));
}

TEST(Conversation, ResetKeepsTheSystemMessage) {
  Conversation conversation("Be terse.");
  conversation.AddUser("Hi");
  conversation.EndTurn("Hello");
  conversation.Reset();
  EXPECT_THAT(Said(conversation), testing::ElementsAre("system: Be terse."));
  conversation.SetSystem("");
  EXPECT_THAT(Said(conversation), testing::IsEmpty());
}

}  // namespace
}  // namespace baton::cli
