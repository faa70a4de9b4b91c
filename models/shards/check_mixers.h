// The part of check_model() for attention, rotation and recurrent mixers.
#pragma once

#include "ir/model/model_config.h"
#include "models/shards/config_checker.h"

namespace moec {

void check_mixers(ConfigChecker& check, const ModelConfig& model);

}  // namespace moec
