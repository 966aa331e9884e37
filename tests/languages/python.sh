# python.sh: finds a Python with NumPy: $PYTHON, or the first of python3 and Debian's python3. Source it. It sets
# `python` to the path, or to nothing.
python=
for python_place in ${PYTHON:-python3 /usr/bin/python3}; do
    if command -v "$python_place" >/dev/null 2>&1 && "$python_place" -c 'import numpy' 2>/dev/null; then
        python=$python_place
        break
    fi
done
