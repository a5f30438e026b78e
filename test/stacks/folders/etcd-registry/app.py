import subprocess
from flask import Flask

app = Flask(__name__)
etcdctl = lambda *args: subprocess.run(["etcdctl", *args], capture_output=True, text=True, check=True).stdout

@app.get("/")
def home():
    return "ready\n"

@app.get("/<key>")
def get(key):
    return etcdctl("get", "--print-value-only", key)

@app.put("/<key>/<value>")
def put(key, value):
    return etcdctl("put", key, value)

app.run(host="::", port=8000)
