#!/usr/bin/env python3
"""Writes the tuning curve of a report as a picture.

    kumiko tune OP … --report report.html
    report_picture.py report.html curve.svg
"""
import re
import sys


def main(report, target):
    with open(report) as file:
        page = file.read()
    # A picture has one background, whatever the colours of the page around it are.
    style = re.sub(r"@media.*?\}\s*\}\s*", "", re.search(r"<style>(.*?)</style>", page, re.S)[1], flags=re.S)
    width, height, curve = re.search(r'<svg viewBox="0 0 (\d+) (\d+)".*?>(.*?)</svg>', page, re.S).groups()
    curve = re.sub(r"<title>.*?</title>", "", curve, flags=re.S).strip()
    legend = re.search(r"<figcaption>(.*?)</figcaption>", page[page.index("<svg "):], re.S)[1]
    x, y, keys = 76, int(height) + 8, []
    for kind, text in re.findall(r'<i class="(\w+)"></i>\s*([^<]*)</span>', legend):
        length = 24 + 6 * len(text)
        if keys and x + length > int(width):
            x, y = 76, y + 18
        keys.append(f'<circle cx="{x}" cy="{y}" r="5" fill="var(--{kind})"/><text x="{x + 9}" y="{y + 4}">{text}</text>')
        x += length
    with open(target, "w") as file:
        file.write("\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {y + 12}" width="{width}">',
                              f"<style>{style.strip()}</style>", '<rect width="100%" height="100%" fill="#fff"/>', curve,
                              *keys, "</svg>", ""]))


main(*sys.argv[1:])
