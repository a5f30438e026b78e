import os, pathlib, sys, time, urllib.request
from flask import Flask

role, media = sys.argv[1], pathlib.Path("/media")
if role == "prepare":
    (media / "in").mkdir(exist_ok=True)
    (media / "out").mkdir(exist_ok=True)
    sys.exit()
while role == "worker":
    for file in (media / "in").iterdir():
        (media / "out" / file.name).write_text(f"{file.read_text()} {os.environ['ROLE']}\n")
        file.unlink()
    time.sleep(0.1)

app = Flask(__name__)

@app.get("/")
def home():
    return f"{role} of {os.environ.get('ROLE', 'nobody')}\n" if role == "web" else urllib.request.urlopen(os.environ["WORKER"]).read()

@app.post("/<name>")
def put(name):
    (media / "in" / name).write_text(name)
    return "written\n"

@app.get("/<name>")
def get(name):
    file = media / "out" / name
    return file.read_text() if file.exists() else ("not yet\n", 404)

app.run(host="::", port=8000)
