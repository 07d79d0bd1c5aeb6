#include "services/cli/utf8_check.h"

#include <gtest/gtest.h>

#include "baton/v1/inference.pb.h"
#include "common/base/status.h"

namespace baton::cli {
namespace {

TEST(Utf8Check, TakesWhatIsUtf8) {
  v1::GenerateRequest request;
  request.set_model("modèle");
  request.add_prompts()->set_text("\xf0\x9f\x99\x82 ok");
  request.mutable_sampling()->add_stop("");
  EXPECT_TRUE(CheckUtf8(request).ok());
}

TEST(Utf8Check, NamesTheFieldTheByteAndItsOffset) {
  v1::GenerateRequest request;
  request.add_prompts()->set_text("fine");
  auto* chat = request.add_prompts()->mutable_chat();
  chat->add_messages()->set_content("fine");
  chat->add_messages()->set_content("four\xff");
  EXPECT_EQ(StatusMessage(CheckUtf8(request)),
            "prompts[1].chat.messages[1].content is not UTF-8: byte 0xff at offset 4");
  EXPECT_EQ(CheckUtf8(request).code(), absl::StatusCode::kInvalidArgument);

  request.Clear();
  request.mutable_sampling()->add_stop("a");
  request.mutable_sampling()->add_stop("\xc3");  // a character that ends too early
  EXPECT_EQ(StatusMessage(CheckUtf8(request)), "sampling.stop[1] is not UTF-8: byte 0xc3 at offset 0");
}

}  // namespace
}  // namespace baton::cli
