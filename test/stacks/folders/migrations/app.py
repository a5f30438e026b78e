import pymysql
from flask import Flask

app = Flask(__name__)

@app.get("/")
def show():
    with pymysql.connect(host="db", user="shop", password="sh0p", database="shop") as connection:
        with connection.cursor() as cursor:
            cursor.execute("SELECT max(a), count(*) FROM t")
            return f"{open('/data/note').read().strip()} {cursor.fetchone()}\n"

app.run(host="::", port=8000)
