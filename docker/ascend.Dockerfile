# titan for Ascend NPUs, on an image of CANN with openEuler. Never run by the project: the tags were read in the image's
# repository (Ascend/cann-container-image), the rest follows docs/ascend.md.
#   docker build -f docker/ascend.Dockerfile -t titan-ascend .
# CANN_IMAGE     the CANN of your torch_npu (9.1.0 for 2.11.0) and your chip: …-910b-… Atlas A2, …-a3-… Atlas A3, …-950-… Ascend 950
# PIP_INDEX_URL  where the wheels come from
# TITAN_GIT      where CLI11, toml++ and Gloo's headers come from, which openEuler has no package of
ARG CANN_IMAGE=quay.io/ascend/cann:9.1.0-910b-openeuler24.03-py3.11
FROM ${CANN_IMAGE}
ARG PIP_INDEX_URL=https://pypi.org/simple
ARG TITAN_GIT=https://github.com
WORKDIR /opt/titan

# By itself, so that this layer stays when only sources change.
COPY tools/setup.sh tools/requirements.txt tools/requirements-npu.txt tools/
RUN tools/setup.sh --npu && dnf clean all

COPY . .
RUN tools/build.sh titan titan_npu && build/titan version

# The image's entry point sources CANN's set_env.sh and then runs the command. The driver comes from the host, as a mount.
CMD ["build/titan", "doctor"]
