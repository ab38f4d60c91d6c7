//! The list of recognisers.

use super::boosting::{CatBoost, LightGbm, XgBoost};
use super::boxed::Boxed;
use super::chainer::Chainer;
use super::deepspeed::DeepSpeed;
use super::detectron2::Detectron2;
use super::dllogger::DlLogger;
use super::epoch_line::EpochLine;
use super::event::Recogniser;
use super::fairseq::FairSeq;
use super::forms::{Known, PROGRAMS};
use super::gpt::Gpt;
use super::hf_trainer::HfTrainer;
use super::jax::Jax;
use super::keras::Keras;
use super::lightning::Lightning;
use super::megatron::Megatron;
use super::mlperf::MlPerf;
use super::mxnet::MxNet;
use super::paddle::Paddle;
use super::pytorch::PyTorch;
use super::rsl_rl::RslRl;
use super::score::Score;
use super::spacy::SpaCy;
use super::table::Table;
use super::tf_cnn::TfCnn;
use super::tf_estimator::TfEstimator;
use super::tf_official::TfOfficial;
use super::timm::Timm;
use super::tqdm::Tqdm;
use super::yolo::Yolo;

/// All recognisers. [`Recogniser::weight`] and who speaks first decide; of those that speak first of the same line, the one
/// that stands first.
pub(super) fn all() -> Vec<Box<dyn Recogniser>> {
    let mut all: Vec<Box<dyn Recogniser>> = vec![
        Box::new(Keras::default()),
        Box::new(PyTorch::default()),
        Box::new(Lightning::default()),
        Box::new(HfTrainer::default()),
        Box::new(Timm::default()),
        Box::new(Detectron2::default()),
        Box::new(Yolo::default()),
    ];
    all.extend(
        PROGRAMS
            .iter()
            .map(|program| -> Box<dyn Recogniser> { Box::new(Known::new(program)) }),
    );
    let others: [Box<dyn Recogniser>; 23] = [
        Box::new(Gpt::default()),
        Box::new(Megatron),
        Box::new(DeepSpeed::default()),
        Box::new(MlPerf::default()),
        Box::new(FairSeq::default()),
        Box::new(DlLogger::default()),
        Box::new(TfEstimator::default()),
        Box::new(TfOfficial::default()),
        Box::new(TfCnn::default()),
        Box::new(MxNet::default()),
        Box::new(Chainer::default()),
        Box::new(Paddle::default()),
        Box::new(XgBoost::default()),
        Box::new(LightGbm::default()),
        Box::new(CatBoost),
        Box::new(Jax::default()),
        Box::new(SpaCy::default()),
        Box::new(Table::default()),
        Box::new(Boxed::default()),
        Box::new(RslRl::default()),
        Box::new(EpochLine::default()),
        Box::new(Tqdm::default()),
        Box::new(Score::default()),
    ];
    all.extend(others);
    all
}
