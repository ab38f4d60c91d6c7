//! The numbers that limits and advice are drawn from, each with its source. `docs/advice.md` shows the same list.

/// A number that decides something.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Threshold {
    /// Its name in the code.
    pub name: &'static str,
    /// The number.
    pub value: f64,
    /// Its unit: `s`, `%`, `CPU`, ...
    pub unit: &'static str,
    /// What it decides.
    pub meaning: &'static str,
    /// Where it comes from.
    pub source: &'static str,
}

macro_rules! thresholds {
    ($($name:ident = $value:literal $unit:literal, $meaning:literal, $source:literal;)*) => {
        $(#[doc = $meaning] pub(super) const $name: f64 = $value;)*

        /// All of them.
        pub const THRESHOLDS: &[Threshold] = &[$(Threshold {
            name: stringify!($name),
            value: $value,
            unit: $unit,
            meaning: $meaning,
            source: $source,
        }),*];
    };
}

thresholds! {
    LEAST_SECONDS = 300.0 "s", "A shorter run gets no limits and no advice.", "jobstats (`MIN_RUNTIME_SECONDS`)";
    LEAST_SAMPLES = 60.0 "", "Nor does one with fewer samples.", "our choice";
    LEAST_COVERED = 80.0 "%", "Nor does one whose samples, without gaps, cover less of its time.", "our choice";
    LEAST_EPOCHS = 3.0 "", "With fewer epochs after the first, no time limit is estimated from them.", "our choice";
    MEM_LOW = 70.0 "%", "Less memory is advised if the run used less of its request.", "jobstats (`MIN_MEMORY_USAGE`)";
    MEM_NEAR = 95.0 "%", "More memory is advised if a completed run used this much.", "our choice";
    MEM_MORE = 1.5 "times", "Factor for the memory of a run that was killed because of memory.", "our choice";
    HEADROOM = 1.2 "times", "Factor between what was used and what is advised.", "jobstats (`rounded_memory_with_safety`)";
    TIME_LOW = 60.0 "%", "A shorter time limit is advised if the run used less of it.", "jobstats (`TIME_EFFICIENCY_BLACK`)";
    CPUS_LOW = 65.0 "%", "Fewer CPUs are advised if fewer were busy, even at the 95th percentile.", "jobstats (`CPU_UTIL_RED`)";
    CPUS_BUSY = 80.0 "%", "CPUs that are busier limit the run.", "jobstats (`CPU_UTIL_BLACK`)";
    ONE_CPU_LEAST = 0.85 "CPU", "A run that keeps between this", "jobstats (note on serial jobs)";
    ONE_CPU_MOST = 1.1 "CPU", "and this many CPUs busy, of two or more, runs in one thread.", "jobstats (1.01), and the loss of sampling";
    GPU_LOW = 70.0 "%", "GPUs that are less busy wait for something.", "SageMaker Debugger (`LowGPUUtilization`)";
    GPU_BUSY = 85.0 "%", "GPUs that are busier limit the run.", "our choice";
    GPU_IDLE_SECONDS = 600.0 "s", "A GPU that never worked in a run of this length is idle.", "our choice; sites warn after 15 to 60 min";
    GPU_IDLE_SHARE = 95.0 "%", "It is also idle if no process of the run was on it for this share of the time.", "our choice";
    IO_WAIT = 20.0 "%", "Storage is the limit if tasks of the run waited for I/O for this share of the time.", "our choice; of Linux' pressure stall information";
    IO_READ = 150.0 "MB/s", "If that time is unknown, the read rate from which storage is the limit.", "our choice";
    MEM_WAIT = 10.0 "%", "Memory is the limit if all tasks waited for it for this share of the time.", "our choice";
    IDLE_SECONDS = 600.0 "s", "A program that does nothing for this long is reported.", "our choice; sites warn after 15 to 60 min";
    STARTUP_SHARE = 20.0 "%", "So is a start-up that takes this share of the time.", "our choice";
    CHECKPOINT_SHARE = 10.0 "%", "And checkpoints that take this share.", "our choice";
    OTHERS_BUSY = 25.0 "%", "Other processes are the limit if they kept this share of the node's CPUs busy, and with the run `CPUS_BUSY` of them.", "our choice";
    QUOTA_WAIT = 10.0 "%", "The quota is the limit if it throttled the run for this share of the time.", "our choice";
}
