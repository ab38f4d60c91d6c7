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
    LEAST_COVERED = 80.0 "%", "Nor one whose samples, gaps left out, cover less of its time.", "our choice";
    LEAST_EPOCHS = 3.0 "", "With fewer epochs after the first no time limit is estimated from them.", "our choice";
    MEM_LOW = 70.0 "%", "Less memory is advised where less of what was asked for was used.", "jobstats (`MIN_MEMORY_USAGE`)";
    MEM_NEAR = 95.0 "%", "More memory is advised where a run that ended well used this much.", "our choice";
    MEM_MORE = 1.5 "times", "A run that was killed for want of memory is advised to ask for so much more.", "our choice";
    HEADROOM = 1.2 "times", "What is advised is so much more than what was used.", "jobstats (`rounded_memory_with_safety`)";
    TIME_LOW = 60.0 "%", "A shorter time limit is advised where less of it was used.", "jobstats (`TIME_EFFICIENCY_BLACK`)";
    CPUS_LOW = 65.0 "%", "Fewer CPUs are advised where less of them was busy, even at the 95th percentile.", "jobstats (`CPU_UTIL_RED`)";
    CPUS_BUSY = 80.0 "%", "CPUs that are busier limit the run.", "jobstats (`CPU_UTIL_BLACK`)";
    ONE_CPU_LEAST = 0.85 "CPU", "A run that keeps between this", "jobstats (note on serial jobs)";
    ONE_CPU_MOST = 1.1 "CPU", "and this many CPUs busy, of two or more, runs in one thread.", "jobstats (1.01), and the loss of sampling";
    WORKER_FULL = 0.9 "CPU", "A process that is so busy is at its limit.", "our choice";
    GPU_LOW = 70.0 "%", "GPUs that are less busy wait for something.", "SageMaker Debugger (`LowGPUUtilization`)";
    GPU_BUSY = 85.0 "%", "GPUs that are busier limit the run.", "our choice";
    GPU_IDLE_SECONDS = 600.0 "s", "A GPU that never worked in so long a run is called idle.", "our choice; sites warn after 15 to 60 min";
    GPU_IDLE_SHARE = 95.0 "%", "Share of the run without a process of it on the GPU, likewise.", "our choice";
    GPU_HELD_DOWN = 10.0 "%", "Time in which power or heat held a GPU down that is worth telling.", "our choice";
    GPU_MEM_LOW = 50.0 "%", "GPU memory that is used less leaves room for larger batches.", "arXiv 2502.18680 (half of the GPU jobs are below)";
    IO_WAIT = 20.0 "%", "Time in which tasks of the run waited for I/O that makes storage its limit.", "our choice; of Linux' pressure stall information";
    IO_READ = 150.0 "MB/s", "Where nobody tells that time, the rate of reading that does.", "our choice";
    MEM_WAIT = 10.0 "%", "Time in which all tasks waited for memory that makes memory its limit.", "our choice";
    QUOTA_WAIT = 10.0 "%", "Time in which the CPU quota kept the run from running that makes the quota its limit.", "our choice";
    IMBALANCE = 15.0 "%", "Nodes that differ more are told apart.", "our choice; steady workers of one job differ by less";
    ASIDE = 20.0 "%", "Share of an epoch that goes into evaluation or checkpoints that is worth telling.", "our choice";
}
