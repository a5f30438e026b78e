import os, psycopg2
from flask import Flask, request

app = Flask(__name__)

def query(text, *values):
    with open("/run/secrets/db-password") as file:
        password = file.read().strip()
    with psycopg2.connect(host=os.environ["DB_HOST"], dbname="shop", user="postgres", password=password) as connection:
        with connection.cursor() as cursor:
            cursor.execute("CREATE TABLE IF NOT EXISTS item (name text)")
            cursor.execute(text, values)
            return cursor.fetchall() if cursor.description else []

@app.get("/")
def items():
    return ",".join(name for (name,) in query("SELECT name FROM item ORDER BY name")) + "\n"

@app.post("/<name>")
def add(name):
    query("INSERT INTO item VALUES (%s)", name)
    return "added\n"
