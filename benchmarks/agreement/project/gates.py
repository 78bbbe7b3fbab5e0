"""The gate tests; the runner copies them to tests/test_speed.py, where pytest finds them."""

from app import cnn, decoder, encoder, mlp


def test_encoder_train(perfguard):
    perfguard(encoder.train_step())


def test_encoder_inference(perfguard):
    perfguard(encoder.inference_step())


def test_cnn_train(perfguard):
    perfguard(cnn.train_step())


def test_cnn_inference(perfguard):
    perfguard(cnn.inference_step())


def test_augment(perfguard):
    perfguard(cnn.augment_step())


def test_mlp_train(perfguard):
    perfguard(mlp.train_step())


def test_loader_train(perfguard):
    train = mlp.trainer()
    for rows, labels in perfguard.steps(mlp.loader()):
        train(rows, labels)


def test_evaluate(perfguard):
    perfguard(mlp.evaluate_step())


def test_rank(perfguard):
    perfguard(mlp.rank_step())


def test_generate(perfguard):
    perfguard(decoder.generate_step())
