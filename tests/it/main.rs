//! The integration tests, one binary.

mod cli_cancel;
mod cli_check;
mod cli_completions;
mod cli_config;
mod cli_exec;
mod cli_list;
mod cli_logs;
mod cli_man;
mod cli_plan;
mod cli_render;
mod cli_show;
mod cli_submit;
mod cli_wait;
mod docs;
mod help;
mod layering;
mod monitor;
mod pyenv;
mod records;
mod rundir;
mod store;
mod support;
mod timing;
