#!/bin/sh
# Makes the Python environment of the tests against vendors' compilers, build/vendors/qnn. Nothing in moec's
# build depends on it, and nothing of it is part of moec.
set -eu
cd "$(dirname "$0")/.."

folder=build/vendors/qnn
packages="numpy==2.4.6 onnxruntime==1.32.0 onnxruntime-qnn==2.7.0 pytest==9.2.0 pytest-timeout==2.4.0 pytest-xdist==3.8.0"
helpers="iniconfig packaging pluggy pygments execnet"
cat <<END
onnxruntime-qnn contains libraries of Qualcomm, under the "AI Stack License" of its file Qualcomm_LICENSE.pdf.
Who installs or uses it accepts that licence. It is installed into $folder from PyPI.
END
if [ "$(cat $folder/packages.txt 2>/dev/null)" = "$packages" ]; then
  echo "$folder is up to date"
  exit 0
fi
rm -rf $folder
python3 -m venv $folder
# shellcheck disable=SC2086
$folder/bin/pip install --quiet --disable-pip-version-check --no-deps $packages $helpers
# Last, so that an interrupted installation is done again.
echo "$packages" > $folder/packages.txt
