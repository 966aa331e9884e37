#!/bin/sh
# On the site every link has a target. In headless Chromium, at phone and desktop widths, in light and dark mode, pages
# fit the width, and the search finds names and the text of all pages.
. "$(dirname "$0")/support.sh"
if ! command -v cmark-gfm >/dev/null 2>&1 || ! command -v python3 >/dev/null 2>&1 || [ -n "${BRIGADE_TEST_QUICK:-}" ]; then
    echo "no cmark-gfm or no Python to make the site with, or a quick run"
    skipped=$((skipped + 1))
    finish
    exit
fi
cd "$folder" || exit 1
version=$(cat "$root/VERSION")

begin_case links
mkdir -p site/0.0.1
echo '<h1>earlier</h1>' >site/0.0.1/index.html
"$root/tools/make_site.py" "$program" site >made.out 2>&1
check "the site is made: $(tail -n 3 made.out)" test $? -eq 0
"$root/tools/make_site.py" --check site >links.out
check "every link and anchor leads somewhere: $(head -n 5 links.out)" test $? -eq 0
check "they are many" test "$(sed -n 's/^\([0-9]*\) links of .*/\1/p' links.out)" -ge 5000
for document in "$root"/docs/*.md; do
    check "$(basename "$document") is there" test -s "site/$version/docs/$(basename "$document" .md).html"
done
for place in index.html commands.html schedules.html report.html docs/options.html reference/session-h.html; do
    check "$place is there" test -s "site/$version/$place"
done
check "versions, the newest first" test "$(grep -o 'href="[0-9.]*/index' site/index.html | tr '\n' ' ')" = \
    "href=\"$version/index href=\"0.0.1/index "
check "nothing is fetched" sh -c '! grep -rlE "(src|<link[^>]*href)=\"https?:" "$1" --include=*.html | grep -v report.html' sh site
sed -i 's/href="docs\/options.html"/href="docs\/optiones.html"/' "site/$version/schedules.html"
"$root/tools/make_site.py" --check site >wrong.out
check "a wrong link is an error" test $? -eq 1
check "and is named" grep -q 'schedules.html: there is no docs/optiones.html' wrong.out
sed -i 's/optiones/options/' "site/$version/schedules.html"

browser=
for name in chromium chromium-browser google-chrome; do
    [ -z "$browser" ] && command -v $name >/dev/null 2>&1 && browser=$name
done
if [ -z "$browser" ]; then
    echo "no Chromium to look at pages with"
    skipped=$((skipped + 1))
    finish
    exit
fi

# phrase PAGE: prints the first six plain words in a row.
phrase() {
    awk '!/^[|#`<! ]/ && match($0, /[A-Za-z]+ [a-z]+ [a-z]+ [a-z]+ [a-z]+ [a-z]+/) { print substr($0, RSTART, RLENGTH); exit }' "$root/$1.md"
}

# Phrases that the search must find, each with its page, as a JavaScript list.
searched="docs/tutorial/04-memory docs/ideas/bubble docs/troubleshooting docs/feeding docs/formats"
phrases=
for page in $searched; do
    phrases="$phrases[\"$page\", \"$(phrase "$page")\"], "
done

# look.html shows the other pages in frames of phone and desktop width, measures them, and types into the search.
cat >site/look.html <<END
<!doctype html><html><body><pre id="results"></pre><script>
const pages = ["index", "docs/options", "docs/strategies", "docs/troubleshooting", "commands", "schedules", "reference/index",
    "reference/ops-h", "reference/session-h", "reference/example-first.c"];
const phrases = [$phrases];
const say = text => document.getElementById("results").append(text + "\n");
function look(page, width) {
    return new Promise(done => {
        const frame = document.createElement("iframe");
        frame.width = width;
        frame.height = 800;
        frame.onload = () => {
            const inner = frame.contentDocument, root = inner.documentElement;
            say((root.scrollWidth <= width ? "fits " : "WIDE " + root.scrollWidth + " ") + page + " " + width);
            if (page === "reference/index") {
                const box = inner.getElementById("search");
                box.value = "plan create train";
                box.dispatchEvent(new Event("input"));
                say("found " + inner.querySelector("#found a").getAttribute("href"));
                say("color " + frame.contentWindow.getComputedStyle(inner.body).backgroundColor);
            }
            frame.remove();
            done();
        };
        frame.src = "$version/" + page + ".html";
        document.body.append(frame);
    });
}
// Types phrases into the search of a page in a folder, and waits until the text index is loaded.
function search(page, width) {
    return new Promise(done => {
        const frame = document.createElement("iframe");
        frame.width = width;
        frame.height = 800;
        frame.onload = async () => {
            const inner = frame.contentDocument, box = inner.getElementById("search");
            for (const [goal, phrase] of phrases) {
                box.value = phrase;
                box.dispatchEvent(new Event("input"));
                for (let i = 0; i < 100 && inner.querySelector("#found mark") === null; i++)
                    await new Promise(resume => setTimeout(resume, 50));
                const link = inner.querySelector("#found .head + li a"), root = inner.documentElement;
                const found = link !== null && new URL(link.href).pathname.endsWith("/" + goal + ".html");
                say((found && root.scrollWidth <= width ? "searched " : "MISSED ") + goal + " " + phrase);
            }
            frame.remove();
            done();
        };
        frame.src = "$version/" + page + ".html";
        document.body.append(frame);
    });
}
(async () => {
    for (const page of pages)
        for (const width of [375, 1280])
            await look(page, width);
    for (const page of ["index", "docs/ideas/index", "reference/index"])
        for (const width of [375, 1280])
            await search(page, width);
    say("done");
})();
</script></body></html>
END
begin_case pages
for scheme in 0 1; do
    timeout 120 "$browser" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --user-data-dir="$folder/browser" \
        --allow-file-access-from-files --blink-settings=preferredColorScheme=$scheme --window-size=1400,1000 \
        --virtual-time-budget=60000 --dump-dom "file://$folder/site/look.html" >dom.html 2>console.log
    sed -n '/<pre id="results">/,/<\/pre>/p' dom.html | sed 's/<[^>]*>//g' >results.$scheme
    check "all pages are looked at: $(tail -n 2 console.log)" grep -q '^done$' results.$scheme
    check "none is wider than its window: $(grep WIDE results.$scheme)" test "$(grep -c '^fits ' results.$scheme)" -eq 20
    check "the search finds a function by parts of its name" grep -q '^found plan-h.html#bg_plan_create_training$' results.$scheme
    check "the search finds phrases of all pages: $(grep MISSED results.$scheme)" test "$(grep -c '^searched ' results.$scheme)" -eq 30
done
check "light and dark differ" test "$(grep -h '^color' results.0 results.1 | sort -u | wc -l)" -eq 2
finish
