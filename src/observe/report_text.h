// The words of the report in each language it speaks. A member more here needs a line in each
// language's table.
#pragma once

#include "observe/report.h"

namespace titan::observe {

struct ReportText {
  const char* html_language;
  const char* title;
  // status
  const char* running;
  const char* finished;
  const char* interrupted;
  const char* failed;
  const char* unknown_status;
  // sections
  const char* curves;
  const char* summary;
  const char* sample;
  const char* sample_note;
  const char* config;
  // controls
  const char* axis;
  const char* by_step;
  const char* by_tokens;
  const char* by_time;
  const char* log_scale;
  const char* smooth;
  // charts and their units
  const char* loss;
  const char* loss_unit;
  const char* train;
  const char* smoothed;
  const char* validation;
  const char* bits_per_byte;
  const char* bits_unit;
  const char* grad_norm;
  const char* grad_norm_unit;
  const char* lr;
  const char* lr_unit;
  const char* throughput;
  const char* throughput_unit;
  const char* mfu;
  const char* mfu_unit;
  const char* memory;
  const char* memory_unit;
  const char* data_wait;
  const char* data_wait_unit;
  const char* step_time;
  const char* step_time_unit;
  const char* no_values;
  const char* steps_lower;  // after a number
  const char* step_number;  // "step {}"
  const char* tokens;
  const char* hours;
  const char* minutes;
  const char* seconds;
  // summary table and tiles
  const char* val_loss;
  const char* train_loss;
  const char* at_start;  // "{} at the start"
  const char* average_rate;
  const char* duration;
  const char* parameters;
  const char* model;
  const char* sizes;
  const char* precision;
  const char* device;
  const char* threads;
  const char* device_memory;
  const char* peak_rate;
  const char* flops_per_token;
  const char* dataset;
  const char* steps;
  const char* batch;
  const char* batch_value;  // "{} sequences of {} tokens"
  const char* tokens_seen;
  const char* average_mfu;
  const char* peak_memory;
  const char* waiting;
  const char* waiting_value;  // "{:.1f}% of the time"
  const char* sessions;
  const char* started;
  const char* ended;
  const char* command;
  const char* versions;
  const char* description;
  const char* folder;
  const char* checkpoint;
  const char* tensorboard;
  const char* error;
  // notes
  const char* bad_loss;       // "… {} …": first step
  const char* skipped_lines;  // "… {} …"
  const char* thinned;        // "… {} … {} …": drawn, all
  const char* needs_script;
  const char* made_by;  // "… {} … {}": titan version, Chart.js version
};

const ReportText& report_text(Language language);

}  // namespace titan::observe
