"""Traps about data that explains values: labels, epochs, fields with measures, spreadsheets, overviews below a mask.

`MAKE` continues the program of `data.py`, and `TABLE` the table of `table.py`.
"""

MAKE = r'''
def labelled(made):
    band = made.GetRasterBand(1)
    band.SetCategoryNames(["none", "water", "forest", "town", "bare"])
    band.SetDescription("land cover")
raster("esri_fill", numpy.where(holes == -9999, numpy.finfo("float32").min, ramp).astype("float32"), utm)
raster("labelled", few, utm, then=labelled)
raster("labelled_next", few, (504000, 5000000, 100), then=labelled)
raster("described", ramp, utm, then=lambda made: made.GetRasterBand(1).SetDescription("height"))
raster("kelvins", ramp, utm, then=lambda made: made.GetRasterBand(1).SetUnitType("K"))
raster("metres_high", ramp, utm, then=lambda made: made.GetRasterBand(1).SetUnitType("m"))
raster("own_domain", ramp, utm, then=lambda made: made.SetMetadataItem("sun", "40", "SENSOR"))
def dated(code, epoch):
    made = crs(code)
    made.SetCoordinateEpoch(epoch)
    return made
raster("dated", ramp, (150, -34, 0.01), None, then=lambda made: made.SetSpatialRef(dated("EPSG:9000", 2021.5)))
raster("undated", ramp, (150, -34, 0.01), "EPSG:9000")
layer("undated_points", ["POINT (150 -34)"], "EPSG:9000")
layer("plate_points", ["POINT (150 -34)"], "EPSG:7844")
features("dated_points", ["POINT (150 -34)"], dated("EPSG:9000", 2021.5))
made = gdal.GetDriverByName("GPKG").Create(f"{folder}/coded.gpkg", 0, 0, 0, gdal.GDT_Unknown)
into = made.CreateLayer("coded", crs("EPSG:32632"), ogr.wkbPoint)
made.AddFieldDomain(ogr.CreateCodedFieldDomain("use", "", ogr.OFTInteger, ogr.OFSTNone, {1: "water", 2: "forest"}))
column = ogr.FieldDefn("use", ogr.OFTInteger); column.SetDomainName("use"); into.CreateField(column)
feature = ogr.Feature(into.GetLayerDefn()); feature.SetField("use", 1); feature.SetGeometry(ogr.CreateGeometryFromWkt("POINT (500000 5000000)")); into.CreateFeature(feature)
into = feature = None; made.Close()

box = "POLYGON (({0} {1},{0} {3},{2} {3},{2} {1},{0} {1}))".format
two = [box(500000, 5000000, 500100, 5000100), box(500100, 5000000, 500200, 5000100)]
features("parcels", two, "EPSG:32632", name=["a", "b"], area=[10000.0, 10000.0], area_ha=[1.0, 1.0], perimeter=[400.0, 400.0])
features("residents", two, "EPSG:32632", name=["a", "b"], population=[12, 40])
features("floors", two, "EPSG:32632", name=["a", "b"], floor_area=[300.0, 250.0], lanes=[1, 2])
features("lanes", ["LINESTRING (500000 5000050,500200 5000050)"], "EPSG:32632", length=[200.0])
features("stations", ["POINT (9 45)", "POINT (9.1 45.1)"], "EPSG:4326", x=[9.0, 9.1], y=[45.0, 45.1])
features("places", ["POINT (9 45)", "POINT (9.1 45.1)"], "EPSG:4326", lon=[9.0, 9.1], lat=[45.0, 45.1])
layer("half", [box(500050, 5000000, 500150, 5000100)], "EPSG:32632")
layer("around", [box(499000, 4999000, 501000, 5001000)], "EPSG:32632")

def sheets(name, *found):
    """A workbook; of each sheet its name, the XML of its rows, what follows them, and its state."""
    main, ties = "http://schemas.openxmlformats.org/spreadsheetml/2006/main", "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    relation = '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">{}</Relationships>'.format
    tie = f'<Relationship Id="{{}}" Type="{ties}/{{}}" Target="{{}}"/>'.format
    numbered = list(enumerate(found, 1))
    kinds = [("workbook", "sheet.main"), ("styles", "styles"), *((f"worksheets/sheet{i}", "worksheet") for i, _ in numbered)]
    types = "".join(f'<Override PartName="/xl/{one}.xml" ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.{kind}+xml"/>' for one, kind in kinds)
    with zipfile.ZipFile(f"{folder}/{name}.xlsx", "w") as packed:
        packed.writestr("[Content_Types].xml", f'<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>{types}</Types>')
        packed.writestr("_rels/.rels", relation(tie("rId1", "officeDocument", "xl/workbook.xml")))
        packed.writestr("xl/_rels/workbook.xml.rels", relation(tie("rId99", "styles", "styles.xml") + "".join(tie(f"rId{i}", "worksheet", f"worksheets/sheet{i}.xml") for i, _ in numbered)))
        packed.writestr("xl/workbook.xml", f'<workbook xmlns="{main}" xmlns:r="{ties}"><sheets>' + "".join(f'<sheet name="{one[0]}" sheetId="{i}" {one[3]} r:id="rId{i}"/>' for i, one in numbered) + "</sheets></workbook>")
        packed.writestr("xl/styles.xml", f'<styleSheet xmlns="{main}"><numFmts count="1"><numFmt numFmtId="164" formatCode="yyyy-mm-dd"/></numFmts><cellXfs count="2"><xf numFmtId="0"/><xf numFmtId="164"/></cellXfs></styleSheet>')
        for i, one in numbered:
            packed.writestr(f"xl/worksheets/sheet{i}.xml", f'<worksheet xmlns="{main}"><sheetData>{one[1]}</sheetData>{one[2]}</worksheet>')
def cell(place, value):
    """A text, a number, nothing, or XML for a number with a style or a formula."""
    if isinstance(value, str) and not value.startswith("<"):
        return f'<c r="{place}" t="inlineStr"><is><t>{value}</t></is></c>'
    if isinstance(value, str):
        return f'<c r="{place}"{" s=" + chr(34) + "1" + chr(34) if "<!--date-->" in value else ""}>{value}</c>'
    return "" if value is None else f'<c r="{place}"><v>{value}</v></c>'
def table(*rows):
    return "".join(f'<row r="{r}">' + "".join(cell(f"{chr(65 + c)}{r}", one) for c, one in enumerate(row)) + "</row>" for r, row in enumerate(rows, 1))
head = ("region", "name", "n")
sheets("formulas", ("formulas", table(("id", "n", "sum"), (1, 2, "<f>A2+B2</f>"), (2, 3, "<f>A3+B3</f>")), "", ""))
sheets("calculated", ("calculated", table(("id", "n", "sum"), (1, 2, "<f>A2+B2</f><v>3</v>"), (2, 3, "<f>A3+B3</f><v>5</v>")), "", ""))
sheets("merged_cells", ("merged_cells", table(head, ("north", "a", 1), (None, "b", 2)), '<mergeCells count="1"><mergeCell ref="A2:A3"/></mergeCells>', ""))
sheets("single_cells", ("single_cells", table(head, ("north", "a", 1), ("north", "b", 2)), "", ""))
sheets("titled", ("titled", table(("Population", None, None), head, ("north", "a", 1), ("north", "b", 2)), "", ""))
sheets("two_headers", ("two_headers", table(("id", "length", "area"), (None, "m", "m2"), (1, 2.5, 3), (2, 3.5, 4)), "", ""))
sheets("of_texts", ("of_texts", table(("Bonn", "north"), ("Trier", "west")), "", ""))
sheets("hidden_sheet", ("now", table(head, ("north", "a", 1)), "", ""), ("before", table(head, ("south", "z", 9)), "", 'state="hidden"'))
sheets("two_sheets", ("now", table(head, ("north", "a", 1)), "", ""), ("before", table(head, ("south", "z", 9)), "", ""))
sheets("serials", ("serials", table(("id", "date"), (1, 43928), (2, 43929)), "", ""))
sheets("days", ("days", table(("id", "date"), (1, "<v>43928</v><!--date-->"), (2, "<v>43929</v><!--date-->")), "", ""))

def open_document(name, *tables):
    """An OpenDocument spreadsheet; of each sheet its name, whether it is shown, and the XML of its rows."""
    spaces = " ".join(f'xmlns:{one}="urn:oasis:names:tc:opendocument:xmlns:{one}:1.0"' for one in ("office", "style", "text", "table"))
    styles = "".join(f'<style:style style:name="{one}" style:family="table"><style:table-properties table:display="{one}"/></style:style>' for one in ("true", "false"))
    sheets = "".join(f'<table:table table:name="{one}" table:style-name="{shown}">{rows}</table:table>' for one, shown, rows in tables)
    with zipfile.ZipFile(f"{folder}/{name}.ods", "w") as packed:
        packed.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        packed.writestr("content.xml", f'<office:document-content {spaces} office:version="1.2"><office:automatic-styles>{styles}</office:automatic-styles><office:body><office:spreadsheet>{sheets}</office:spreadsheet></office:body></office:document-content>')
def ods_row(*cells):
    """A text with further attributes, a number, or XML for each cell."""
    made = (one if str(one).startswith("<") else f'<table:table-cell office:value-type="float" office:value="{one}"/>' if isinstance(one, int) else f'<table:table-cell office:value-type="string"><text:p>{one}</text:p></table:table-cell>' for one in cells)
    return f"<table:table-row>{''.join(made)}</table:table-row>"
formula = '<table:table-cell table:formula="of:=[.A2]+1"{}/>'.format
spanned = '<table:table-cell office:value-type="string" table:number-rows-spanned="2"><text:p>a</text:p></table:table-cell>'
open_document("ods_unread", ("now", "true", ods_row("id", "group", "sum") + ods_row(1, spanned, formula("")) + ods_row(2, "<table:covered-table-cell/>", formula(""))), ("before", "false", ods_row("id") + ods_row(9)))
open_document("ods_read", ("now", "true", ods_row("id", "group", "sum") + ods_row(1, "a", formula(' office:value-type="float" office:value="2"')) + ods_row(2, "a", 3)))

def faded(made):
    made.CreateMaskBand(gdal.GMF_PER_DATASET)
    hole = numpy.full((512, 512), 255, "uint8"); hole[:100, :100] = 0
    made.GetRasterBand(1).GetMaskBand().WriteArray(hole)
raster("small_bytes", numpy.full((512, 512), 7, "uint8"), utm, then=lambda made: made.BuildOverviews("AVERAGE", [2, 4]))
raster("large_bytes", numpy.add.outer(numpy.arange(2000), numpy.arange(2200)).astype("uint8"), utm, options=["COMPRESS=DEFLATE", "TILED=YES"], then=lambda made: made.BuildOverviews("AVERAGE", [2, 4, 8]))
for name in ("old_masked_overviews", "true_masked_overviews"):
    raster(name, smooth, utm, then=faded)
    opened = gdal.Open(f"{folder}/{name}.tif"); opened.BuildOverviews("AVERAGE", [2, 4]); opened = None
opened = gdal.Open(f"{folder}/old_masked_overviews.tif", gdal.GA_Update); opened.GetRasterBand(1).WriteArray(smooth + 5000); opened = None
'''

TABLE = r"""
# what explains the values
labels_lost
    raster clip input=kelvins.tif output=OUT.tif bbox=[500000,4999000,502000,5000000]
    raster clip input=metres_high.tif output=OUT.tif bbox=[500000,4999000,502000,5000000]
    raster clip input=elevation.tif output=OUT.tif bbox=[500000,4999000,502000,5000000]
    raster select input=kelvins.tif output=OUT.vrt band=["1"]
labels_lost
    reproject input=labelled.tif output=OUT.tif dst_crs=EPSG:3035 extra_args=["--dst-nodata=255"]
    reproject input=described.tif output=OUT.tif dst_crs=EPSG:3035 resampling=bilinear extra_args=["--dst-nodata=-1"]
    raster clip input=labelled.tif output=OUT.tif bbox=[500000,4999000,502000,5000000]
    raster calc input=["A=labelled.tif"] calc=["A*2"] output=OUT.tif
labels_lost
    convert input=described.tif output=OUT.nc
    convert input=described.tif output=OUT.tif creation_options=["COMPRESS=LZW"]
    convert input=elevation.tif output=OUT.nc
labels_lost
    raster mosaic input=["labelled.tif","labelled_next.tif"] output=OUT.tif
labels_lost
    convert input=own_domain.tif output=OUT.tif creation_options=["COMPRESS=LZW"]
labels_lost ignoring:identical_to_input
    query_to_file inputs=["coded.gpkg"] output=OUT.gpkg sql=SELECT use, geom FROM coded
    vector filter input=coded.gpkg output=OUT.gpkg where=use < 2
    vector convert input=coded.gpkg output=OUT.shp
    vector convert input=coded.gpkg output=OUT.csv layer-creation-option=["GEOMETRY=AS_XY"]
epoch_lost ignoring:identical_to_input
    raster reproject input=dated.tif output=OUT.tif resolution=[0.02,0.02] resampling=bilinear
    raster clip input=dated.tif output=OUT.tif bbox=[150,-34.2,150.2,-34]
    raster reproject input=undated.tif output=OUT.tif resolution=[0.02,0.02] resampling=bilinear
epoch_lost
    vector convert input=dated_points.gpkg output=OUT.shp
    vector convert input=dated_points.gpkg output=OUT.fgb
    vector convert input=undated_points.gpkg output=OUT.shp
epoch_lost
    vector_reproject input=dated_points.gpkg output=OUT.gpkg output-crs=EPSG:32756
    vector_reproject input=dated_points.gpkg output=OUT.gpkg output-crs=EPSG:7844
epoch_unknown before
    vector_reproject input=undated_points.gpkg output=OUT.gpkg output-crs=EPSG:7844
    vector_reproject input=undated_points.gpkg output=OUT.gpkg output-crs=EPSG:7844 input-crs=EPSG:9000@2021.5
    vector_reproject input=points.gpkg output=OUT.gpkg output-crs=EPSG:4258
    vector_reproject input=plate_points.gpkg output=OUT.gpkg output-crs=EPSG:4326
epoch_unknown before
    reproject input=undated.tif output=OUT.tif dst_crs=EPSG:7844 resampling=bilinear
    reproject input=dated.tif output=OUT.tif dst_crs=EPSG:7844 resampling=bilinear
epoch_unknown before
    vector_reproject input=dated_points.gpkg output=OUT.gpkg output-crs=EPSG:7844 input-crs=EPSG:9000
epoch_unmoved before ignoring:identical_to_input
    vector_reproject input=dated_points.gpkg output=OUT.gpkg output-crs=EPSG:9000@2010
    vector_reproject input=dated_points.gpkg output=OUT.gpkg output-crs=EPSG:9000@2021.5

nodata_undeclared
    raster clip input=esri_fill.tif output=OUT.tif bbox=[500000,4998000,502000,5000000]
    raster clip input=low.tif output=OUT.tif bbox=[500000,4998000,502000,5000000]

# fields with measures of other geometries
fields_stale ignoring:identical_to_input
    vector clip input=parcels.gpkg like=half.gpkg output=OUT.gpkg
    vector clip input=parcels.gpkg like=around.gpkg output=OUT.gpkg
    vector clip input=floors.gpkg like=half.gpkg output=OUT.gpkg
    vector filter input=parcels.gpkg output=OUT.gpkg where=name = 'a'
fields_stale ignoring:identical_to_input
    vector clip input=residents.gpkg like=half.gpkg output=OUT.gpkg
    vector clip input=residents.gpkg like=around.gpkg output=OUT.gpkg
    query_to_file inputs=["residents.gpkg"] output=OUT.gpkg sql=SELECT name, population, ST_Centroid(geom) AS geom FROM residents
fields_stale ignoring:identical_to_input
    vector layer-algebra operation=intersection input=parcels.gpkg method=half.gpkg output=OUT.gpkg
    vector layer-algebra operation=intersection input=parcels.gpkg method=around.gpkg output=OUT.gpkg
fields_stale ignoring:identical_to_input
    vector clip input=lanes.gpkg like=half.gpkg output=OUT.gpkg
    vector clip input=lanes.gpkg like=around.gpkg output=OUT.gpkg
fields_stale ignoring:identical_to_input
    vector_reproject input=stations.gpkg output=OUT.gpkg output-crs=EPSG:32632
    vector_reproject input=places.gpkg output=OUT.gpkg output-crs=EPSG:32632
    vector_reproject input=parcels.gpkg output=OUT.gpkg output-crs=EPSG:4326
    vector_reproject input=parcels.gpkg output=OUT.gpkg output-crs=EPSG:3035
fields_stale ignoring:identical_to_input
    query_to_file inputs=["parcels.gpkg","half.gpkg"] output=OUT.gpkg sql=SELECT a.name, a.area, ST_Intersection(a.geom, b.geom) AS geom FROM parcels a, half b
    query_to_file inputs=["parcels.gpkg","half.gpkg"] output=OUT.gpkg sql=SELECT a.name, ST_Area(ST_Intersection(a.geom, b.geom)) AS area, ST_Intersection(a.geom, b.geom) AS geom FROM parcels a, half b
    query_to_file inputs=["parcels.gpkg"] output=OUT.gpkg sql=SELECT sum(area) AS area, ST_Union(geom) AS geom FROM parcels

# spreadsheets
formulas_unread
    vector info input=formulas.xlsx
    vector info input=calculated.xlsx
formulas_unread
    vector info input=ods_unread.ods
    vector info input=ods_read.ods
cells_merged
    vector info input=ods_unread.ods
sheets_hidden
    vector info input=ods_unread.ods
cells_merged
    query inputs=["merged_cells.xlsx"] sql=SELECT region, sum(n) AS n FROM merged_cells GROUP BY region
    query inputs=["single_cells.xlsx"] sql=SELECT region, sum(n) AS n FROM single_cells GROUP BY region
header_in_rows ignoring:header_as_row
    vector convert input=titled.xlsx output=OUT.csv
    vector convert input=of_texts.xlsx output=OUT.csv
    vector convert input=single_cells.xlsx output=OUT.csv
header_in_rows
    vector info input=two_headers.xlsx
sheets_hidden
    vector convert input=hidden_sheet.xlsx output=OUT.gpkg
    vector convert input=hidden_sheet.xlsx input-layer=["now"] output=OUT.gpkg
    vector convert input=two_sheets.xlsx output=OUT.gpkg
    query inputs=["hidden_sheet.xlsx"] sql=SELECT sum(n) AS n FROM hidden_sheet_now
dates_as_numbers
    query inputs=["serials.xlsx"] sql=SELECT min("date") AS first FROM serials
    query inputs=["days.xlsx"] sql=SELECT min("date") AS first FROM days

# overviews
overviews_stale
    raster resize input=old_masked_overviews.tif output=OUT.tif size=["100","100"] resampling=average
    raster resize input=true_masked_overviews.tif output=OUT.tif size=["100","100"] resampling=average
overviews_unexamined
    raster tile input=large_bytes.tif output=OUT max-zoom=7 min-zoom=7
    raster tile input=large_bytes.tif output=OUT max-zoom=10 min-zoom=10
    raster tile input=small_bytes.tif output=OUT max-zoom=9 min-zoom=9
"""
