#!/bin/sh
# Makes the Python environments for tests with vendors' compilers and runtimes, build/vendors/NAME. moec's build does
# not depend on them, and they are not part of moec.
#
#   scripts/install_vendors.sh [qnn] [coreai] [rknn] [litert] [litertlm] [litert-qnn]
#
# Default: all but rknn. rknn takes 1.5 GB and must be named.
set -eu
cd "$(dirname "$0")/.."

tests="pytest==9.2.0 pytest-timeout==2.4.0 pytest-xdist==3.8.0 iniconfig packaging pluggy pygments execnet"

about_qnn() {
  cat <<END
onnxruntime-qnn contains libraries of Qualcomm, under the "AI Stack License" of its file Qualcomm_LICENSE.pdf.
Who installs or uses it accepts that licence.
END
}
packages_qnn="numpy==2.4.6 onnxruntime==1.32.0 onnxruntime-qnn==2.7.0"

about_coreai() {
  cat <<END
coreai-core is Apple's authoring library and runtime of Core AI, a beta, under the BSD 3-Clause licence, without
warranty. With it come ml_dtypes (Apache-2.0), pillow (MIT-CMU), psutil (BSD-3-Clause) and yuvio (MIT), which it needs.
END
}
packages_coreai="coreai-core==1.0.0b3 ml_dtypes==0.6.0 numpy==2.4.6 onnx==1.23.2 onnxruntime==1.32.0 pillow==13.0.0
  protobuf==7.36.2 psutil==7.2.2 typing_extensions==4.16.0 yuvio==1.6"

about_rknn() {
  cat <<END
rknn-toolkit2 is Rockchip's compiler and simulator, closed source; its wheel contains no text of a licence. It takes
1.5 GB, most of it torch, without which it does not start.
END
}
packages_rknn="rknn-toolkit2==2.5.0 numpy==1.26.4 onnx==1.16.1 onnxruntime==1.20.1 protobuf==4.25.4 torch==2.13.0
  psutil==7.2.2 ruamel.yaml==0.19.1 scipy==1.17.1 tqdm==4.70.1 opencv-python-headless==5.0.0.93 fast-histogram==0.14
  setuptools==65.5.0 typing_extensions==4.16.0 sympy==1.14.0 mpmath==1.4.1 networkx==3.6.1 jinja2==3.1.6
  markupsafe==3.0.4 filelock==4.2.12 fsspec==2026.9.0"

about_litert() {
  cat <<END
ai-edge-litert is Google's runtime for .tflite files, under the Apache-2.0 licence. Its wheel also contains plugins for
the compilers of other vendors, without these compilers; moec does not use them.
END
}
packages_litert="ai-edge-litert==2.3.0 backports.strenum==1.2.8 flatbuffers==25.12.19 ml_dtypes==0.6.0 numpy==2.4.6
  protobuf==7.36.2 tqdm==4.70.1 typing_extensions==4.16.0"

about_litertlm() {
  cat <<END
litert-lm-api is Google's runtime for .litertlm files, and litert-lm-builder its packer, under the Apache-2.0 licence;
with ai-edge-litert, which runs their graphs alone.
END
}
packages_litertlm="$packages_litert litert-lm-api==0.18.1 litert-lm-builder==0.18.1 absl-py==2.5.1 tomli==2.5.0"

about_litert_qnn() {
  cat <<END
litert-qnn is Qualcomm's plugin of LiteRT, in ai-edge-litert (Apache-2.0), with the libraries of onnxruntime-qnn, which
are under Qualcomm's "AI Stack License" of its file Qualcomm_LICENSE.pdf. Who installs or uses it accepts that licence,
and decides whether it permits this plugin to use the libraries.
END
}
packages_litert_qnn="$packages_litert onnx==1.23.2 onnxruntime==1.32.0 onnxruntime-qnn==2.7.0"

# install NAME PACKAGES: makes the environment, unless it has exactly these packages.
install() {
  folder=build/vendors/$1
  echo "$folder, from PyPI:"
  "about_$(echo "$1" | tr - _)"
  packages="$2 $tests"
  if [ "$(cat "$folder/packages.txt" 2>/dev/null)" = "$packages" ]; then
    echo "$folder is up to date"
    return
  fi
  rm -rf "$folder"
  python3 -m venv "$folder"
  # shellcheck disable=SC2086
  "$folder/bin/pip" install --quiet --disable-pip-version-check --no-deps $packages
  # Written last, so that an interrupted installation is repeated.
  echo "$packages" > "$folder/packages.txt"
}

[ $# -gt 0 ] || set -- qnn coreai litert litertlm litert-qnn
for name; do
  case $name in
    qnn) install qnn "$packages_qnn" ;;
    litert) install litert "$packages_litert" ;;
    litertlm) install litertlm "$packages_litertlm" ;;
    litert-qnn) install litert-qnn "$packages_litert_qnn" ;;
    coreai) install coreai "$packages_coreai" ;;
    rknn) install rknn "$packages_rknn" ;;
    *) echo "usage: scripts/install_vendors.sh [qnn] [coreai] [rknn] [litert] [litertlm] [litert-qnn]" >&2; exit 2 ;;
  esac
done
