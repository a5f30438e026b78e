/** The part of a Python build script that gets Python and the installer, and runs the steps. */

/**
 * Python program that exits with 0 if the running Python matches the wanted version. pip contains Python's version
 * rules.
 */
export const admitsPython = `import sys
from pip._vendor.packaging.specifiers import SpecifierSet
wanted = sys.argv[1]
wanted = wanted if wanted[0] in "<>=~!" else "==" + wanted + ".*"
sys.exit(0 if SpecifierSet(wanted).contains(".".join(map(str, sys.version_info[:3]))) else 1)
`

/**
 * uv downloads the wanted Python from GitHub. If GitHub is unreachable, the build uses the image's Python. Debian's pip
 * may not run with another Python, so uv installs packages in its place.
 */
export const python = `export HOME=/root PIP_CACHE_DIR=/cache/pip PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
export UV_CACHE_DIR=/cache/uv UV_LINK_MODE=copy UV_NO_PROGRESS=1 UV_HTTP_RETRIES=1 UV_PYTHON_INSTALL_DIR=/app/.mote/python
export PIPENV_VERBOSITY=-1 UV_PROJECT_ENVIRONMENT=/app/.venv POETRY_CACHE_DIR=/cache/poetry PIPENV_CACHE_DIR=/cache/pipenv PDM_CACHE_DIR=/cache/pdm
unpack /app
cd /app
explain() { if [ $? != 0 ]; then echo "error: \${PYTHON_AT:-This build} asks for Python $PYTHON, which this host cannot download from GitHub, and Debian's Python cannot replace it. Change the line to $(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])'), or let the host reach github.com"; fi; }
mkdir -p /opt/mote/bin
tools=/opt/mote/tools
/usr/bin/python3 -m venv --without-pip $tools
fetch="/usr/bin/python3 -m pip --python $tools/bin/python install --quiet --retries 1 --timeout 15"
python=/usr/bin/python3
pip="/usr/bin/python3 -m pip --python /app/.venv/bin/python"
if $fetch uv && timeout 300 $tools/bin/uv python install --managed-python "$PYTHON"; then
  python=$($tools/bin/uv python find --managed-python "$PYTHON")
  pip="$tools/bin/uv pip"
  echo "using $("$python" --version), fetched by uv"
else
  rm -rf /app/.mote
  echo "using $(python3 --version) of Debian: Python $PYTHON cannot be downloaded from GitHub"
  python3 - "$PYTHON" <<'END' || trap explain EXIT
${admitsPython}END
fi
"$python" -m venv --without-pip /app/.venv
if [ -n "$TOOL_PACKAGE" ]; then step "$fetch \\"\\$TOOL_PACKAGE\\""; fi
printf '#!/bin/sh\\nexec %s "$@"\\n' "$pip" > /opt/mote/bin/pip
chmod +x /opt/mote/bin/pip
export UV_PYTHON="$python" VIRTUAL_ENV=/app/.venv PATH="/opt/mote/bin:/app/.venv/bin:$tools/bin:$PATH"
steps "$INSTALL"
steps "$BUILD"
`
