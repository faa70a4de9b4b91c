// Export phases are types, so a step that is repeated or in the wrong order does not compile.
#include "frontends/export/export_phases.h"

#include <gtest/gtest.h>

#include <utility>

namespace moec {
namespace {

template <class Phase>
concept CanPrepare = requires(Phase phase) {
  std::move(phase).prepare();
};
template <class Phase>
concept CanWriteParts = requires(Phase phase, const PayloadCallback& advance) {
  phase.job(advance);
};
template <class Phase>
concept CanFinish = requires(Phase phase, ExportedParts parts) {
  std::move(phase).finish(std::move(parts));
};
template <class Phase>
concept CanRemoveJournal = requires(Phase phase) {
  std::move(phase).remove_journal();
};

TEST(ExportPhases, AllowEachStepInOnePhase) {
  static_assert(CanPrepare<OpenExport>);
  static_assert(!CanPrepare<PlannedExport> && !CanPrepare<LockedExport> &&
                !CanPrepare<PreparedExport> && !CanPrepare<WrittenExport>);
  static_assert(CanWriteParts<PreparedExport> && CanFinish<PreparedExport>);
  static_assert(!CanWriteParts<OpenExport> && !CanFinish<OpenExport>);
  static_assert(!CanWriteParts<WrittenExport> && !CanFinish<WrittenExport>);
  static_assert(CanRemoveJournal<WrittenExport>);
  static_assert(!CanRemoveJournal<OpenExport> && !CanRemoveJournal<PreparedExport>);
}

// An lvalue models an export that the caller still owns after the step.
template <class Phase>
concept PreparesTwice = requires(Phase& phase) {
  phase.prepare();
};
template <class Phase>
concept FinishesTwice = requires(Phase& phase, ExportedParts parts) {
  phase.finish(std::move(parts));
};
template <class Phase>
concept RemovesJournalTwice = requires(Phase& phase) {
  phase.remove_journal();
};

TEST(ExportPhases, ConsumeThePhaseOfEachStep) {
  static_assert(!PreparesTwice<OpenExport>);
  static_assert(!FinishesTwice<PreparedExport>);
  static_assert(!RemovesJournalTwice<WrittenExport>);
}

}  // namespace
}  // namespace moec
