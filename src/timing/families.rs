//! The list of recognisers.

use super::deepspeed::DeepSpeed;
use super::detectron2::Detectron2;
use super::dllogger::DlLogger;
use super::epoch_line::EpochLine;
use super::event::Recogniser;
use super::fairseq::FairSeq;
use super::gpt::Gpt;
use super::hf_trainer::HfTrainer;
use super::keras::Keras;
use super::lightning::Lightning;
use super::megatron::Megatron;
use super::mlperf::MlPerf;
use super::openmm::OpenMm;
use super::pytorch::PyTorch;
use super::timm::Timm;
use super::tqdm::Tqdm;
use super::yolo::Yolo;

/// All recognisers, in no order that matters: [`Recogniser::weight`] and who speaks first decide.
pub(super) fn all() -> Vec<Box<dyn Recogniser>> {
    vec![
        Box::new(Keras::default()),
        Box::new(PyTorch::default()),
        Box::new(Lightning::default()),
        Box::new(HfTrainer::default()),
        Box::new(Timm),
        Box::new(Detectron2::default()),
        Box::new(OpenMm),
        Box::new(Yolo::default()),
        Box::new(Tqdm::default()),
        Box::new(EpochLine),
        Box::new(Gpt::default()),
        Box::new(Megatron),
        Box::new(DeepSpeed::default()),
        Box::new(MlPerf::default()),
        Box::new(FairSeq::default()),
        Box::new(DlLogger::default()),
    ]
}
